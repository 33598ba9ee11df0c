"""Whatever raises in a chunk, the world is as after its last committed one, and the books balance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_checkpoint import HEIGHT, WIDTH, write_checkpoint
from torch import Tensor

from engine.api import ChunkFailed, ChunkReady, EncodedChunk, ModelCard, OpenWorld, Tick
from engine.codec.codec import History
from engine.codec.streaming import StreamingTinyCodec
from engine.media.chunk import encode_chunk
from engine.native.host import NativeHost
from engine.text.words import WordTable
from engine.transformer.serving import ServingTransformer
from engine.worker.local import LocalEngine

torch.set_num_threads(1)

WALK = ({"keys": ("w",)},) * 3
PROMPTS = ("a meadow", "a meadow", "a desert", "a desert")  # the fault comes with the third: a new prompt


class Fuse:
    """What blows, once."""

    stage: str | None = None

    def reach(self, stage: str) -> None:
        if stage == self.stage:
            self.stage = None
            raise RuntimeError(f"{stage} blew")


class Transformer(ServingTransformer):
    fuse: Fuse

    def forward(self, *arguments: Any) -> Tensor:
        out = super().forward(*arguments)
        self.fuse.reach("forward")
        return out

    def write(self, *arguments: Any) -> None:
        super().write(*arguments)  # the K/V are written, and then it raises
        self.fuse.reach("commit")

    def text(self, text: Tensor) -> Any:
        self.fuse.reach("projection")
        return super().text(text)


class Codec(StreamingTinyCodec):
    fuse: Fuse

    def decode(self, latents: Tensor, history: History = ()) -> tuple[Tensor, History]:
        out = super().decode(latents, history)
        self.fuse.reach("decode")
        return out


class Words(WordTable):
    fuse: Fuse

    def encode(self, prompt: str) -> Tensor:
        self.fuse.reach("text encoder")
        return super().encode(prompt)


class FusedHost(NativeHost):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, torch.device("cpu"), 4, 0.5)
        self.fuse = Fuse()

    def load(self) -> ModelCard:
        card = super().load()
        model = self._model
        assert model is not None
        assert isinstance(model.transformer, ServingTransformer)
        assert isinstance(model.codec, StreamingTinyCodec)
        assert isinstance(model.text_encoder, WordTable)
        transformer, codec = Transformer(model.transformer.module), Codec(model.codec.network)
        words = Words(model.text_encoder.words, model.text_encoder.table)
        transformer.fuse = codec.fuse = words.fuse = self.fuse
        self._model = replace(model, transformer=transformer, codec=codec, text_encoder=words)
        return card

    def encode(self, frames: Any, *arguments: Any) -> EncodedChunk:
        self.fuse.reach("media encoder")
        return encode_chunk(frames, *arguments)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("small"))


async def play(engine: LocalEngine, world: str, indices: Sequence[int]) -> list[str]:
    digests = []
    for index in indices:
        tick = Tick("s", world, 0, f"r{index}", index, (), PROMPTS[index], (), {"camera": WALK})  # type: ignore[dict-item]
        async for answer in engine.run_chunk(tick):
            if isinstance(answer, ChunkReady):
                digests.append(answer.media.digest)
    return digests


STAGES = ("text encoder", "projection", "forward", "decode", "media encoder", "commit")


@pytest.mark.parametrize("stage", STAGES)
async def test_a_stage_that_raises_costs_its_chunk_and_nothing_else(checkpoint: Path, stage: str) -> None:
    host = FusedHost(checkpoint)
    engine = LocalEngine(host, host.encode)
    await engine.start()
    caches = host._caches
    assert caches is not None
    try:
        for world in ("calm", "hurt"):
            await engine.open_world(OpenWorld(world, "a meadow", WIDTH, HEIGHT, 16, 3, scene="meadow"))
        calm = await play(engine, "calm", range(4))
        before = await play(engine, "hurt", range(2))
        held = await engine.read_ledger("hurt")
        host.fuse.stage = stage
        with pytest.raises(ChunkFailed, match=f"{stage} blew"):
            await play(engine, "hurt", [2])
        after = await engine.read_ledger("hurt")
        assert after.balanced
        assert after.live_bytes <= held.live_bytes  # the former prompt's K/V may be gone; nothing was added
        assert before + await play(engine, "hurt", [2, 3]) == calm
        for world in ("calm", "hurt"):
            await engine.close_world(world)
        assert caches.memory.live_bytes == caches.memory.allocations == caches.ledger.live_bytes == 0
        assert caches.pool is not None
        assert caches.pool.in_use == 0
    finally:
        await engine.stop()
