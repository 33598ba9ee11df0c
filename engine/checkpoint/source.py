"""Where a checkpoint comes from: a folder, or a hub at a pinned commit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from engine.checkpoint.index import CheckpointRefused

HUB_ID: Final = re.compile(r"[\w.-]+/[\w.-]+(@.*)?")
COMMIT: Final = re.compile(r"[0-9a-f]{40}")
FILES: Final = (
    "*.json",
    "*.safetensors",
    "*.model",  # SentencePiece
    "*.txt",
    "scenes/*",
)
"""What is fetched: nothing that would be unpickled or run."""


def locate(model: Path) -> Path:
    """The folder itself, or that of a hub's `OWNER/NAME@COMMIT`, which is fetched where it isn't cached yet.

    A fetch shows its progress on standard error and goes on where an earlier one broke off; `HF_HOME`,
    `HF_HUB_OFFLINE` and `HF_TOKEN` mean what they mean to huggingface_hub. Raises `CheckpointRefused`.
    """
    if model.is_dir():
        return model
    name, _, commit = str(model).partition("@")
    if not HUB_ID.fullmatch(str(model)):
        raise CheckpointRefused(f"{model}: no such folder, and no OWNER/NAME@COMMIT of a hub")
    if not COMMIT.fullmatch(commit):
        came = repr(commit) if commit else "none"
        raise CheckpointRefused(
            f"{model}: no such folder; from the hub it needs a pinned commit (40 hexadecimal digits, "
            f"{name}@COMMIT), got {came}"
        )
    return _fetch(name, commit)


def _fetch(name: str, commit: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ModuleNotFoundError:
        advice = "pip install 'worldline[lingbot]'"
        raise CheckpointRefused(f"{name}: needs huggingface_hub, which isn't installed: {advice}") from None
    try:
        return Path(snapshot_download(name, revision=commit, allow_patterns=list(FILES)))
    except (OSError, ValueError) as error:  # huggingface_hub's errors are kinds of these
        raise CheckpointRefused(f"{name}@{commit}: {error}") from error
