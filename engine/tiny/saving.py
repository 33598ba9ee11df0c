"""Files of training: what another process reads, or what a run goes on from, is whole or not there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

Parts = Mapping[str, nn.Module | torch.optim.Optimizer]
"""What of a run learns, by the names in its file."""


def save_whole(content: Mapping[str, object], path: Path) -> None:
    """Write what `torch.load` reads, in one move, so that a reader never sees half of it."""
    partial = path.with_suffix(".partial")
    torch.save(content, partial)
    partial.replace(path)


def save_run(step: int, parts: Parts, path: Path) -> None:
    """Write what `load_run` goes on from."""
    save_whole({"step": step, **{name: part.state_dict() for name, part in parts.items()}}, path)


def load_run(parts: Parts, path: Path) -> int:
    """Make the parts what they were when `save_run` wrote them; the step they were at."""
    saved = torch.load(path, weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    return int(saved["step"])
