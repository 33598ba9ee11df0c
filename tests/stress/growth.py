"""How much a process grows."""

from __future__ import annotations

import ctypes
import gc
import resource
from pathlib import Path

import pytest

LIMIT = 16 * 1024 * 1024
PAGE = resource.getpagesize()


def resident() -> int:
    """Bytes of this process in memory, after a collection, less what its allocator only keeps for later."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def scales(short: int, whole: int) -> list[object]:
    """A short form for every day, and the whole for `make stress`."""
    return [pytest.param(short, id="short"), pytest.param(whole, id="whole", marks=pytest.mark.slow)]
