"""What training prints now and then: how well held-out walks are drawn, in decibels."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from engine.camera.session_rays import SessionRays
from engine.text.words import WordTable
from engine.tiny.frames import HELD_OUT, clip, psnr, to_float
from engine.tiny.latents import WALK, load_codec
from engine.tiny.objective import FRAMES
from engine.tiny.places import PLACES
from engine.tiny.rollout import rollout
from engine.transformer.model import WorldTransformer

SIGMAS = (1.0, 0.6)
COUNT = 12


class Watch:
    """Holds some held-out walks and compares what a model makes of them."""

    def __init__(self, codec: Path) -> None:
        self.codec, self.mean, self.std = load_codec(codec)
        self.clips = [clip(HELD_OUT, 2_000_000 + i, WALK) for i in range(COUNT)]
        self.truth = to_float(torch.stack([one.frames for one in self.clips]))
        self.stances = torch.stack([torch.from_numpy(one.walk.stances) for one in self.clips])
        blank = torch.cat([self.truth[:, :1], torch.zeros_like(self.truth[:, 1:9])], dim=1)
        with torch.no_grad():
            self.image = (self.codec.encode_video(blank) - self.mean) / self.std

    def report(self, model: WorldTransformer, constant: Tensor, rays: SessionRays, table: WordTable) -> str:
        """One line: PSNR per block when left alone, with one step, without context; and of the mean
        picture."""
        text = torch.cat([table.encode(PLACES[one.place].prompt) for one in self.clips])
        parts = (model, self.stances, self.image, text, constant, rays)
        rows = {
            "two steps": rollout(*parts, SIGMAS),
            "one step": rollout(*parts, (1.0,)),
            "no context": rollout(*parts, SIGMAS, with_context=False),
        }
        lines = [f"{name}: {self._decibels(latents)}" for name, latents in rows.items()]
        return "held-out " + " | ".join(lines) + f" | mean picture {self._mean_picture()}"

    @torch.no_grad()
    def _decibels(self, latents: Tensor) -> str:
        frames = self.codec.decode_video(latents * self.std + self.mean)
        return per_block(frames, self.truth)

    def _mean_picture(self) -> str:
        frames = torch.empty_like(self.truth)
        places = torch.tensor([one.place for one in self.clips])
        for place in range(len(PLACES)):
            frames[places == place] = self.truth[places == place].mean(dim=(0, 1))
        return per_block(frames, self.truth)


def per_block(frames: Tensor, truth: Tensor) -> str:
    """Mean PSNR of each block of pictures: 9 frames, then 12 each."""
    edges = [0, *range(1 + 4 * (FRAMES - 1), truth.shape[1] + 1, 4 * FRAMES)]
    spans = list(pairwise(edges))
    return " ".join(
        f"{sum(psnr(a[i:j], b[i:j]) for a, b in zip(frames, truth, strict=True)) / len(truth):.1f}"
        for i, j in spans
    )
