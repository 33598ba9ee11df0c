"""How much memory a device has left for caches."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import torch

_CGROUP: Final = Path("/sys/fs/cgroup")


def available_bytes(device: torch.device) -> int:
    """Free bytes of the device; on a CPU within the container's limit, where it has one."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    machine, left = _machine_left(), cgroup_left(_CGROUP)
    return machine if left is None else min(machine, left)


def cgroup_left(folder: Path) -> int | None:
    """What the control group (version 2) still allows; None where it sets no limit.

    Cached files count as free: the kernel gives them up on demand.
    """
    try:
        limit = (folder / "memory.max").read_text().strip()
        used = int((folder / "memory.current").read_text())
        cached = _field(folder / "memory.stat", "inactive_file")
    except (OSError, ValueError):
        return None
    return None if limit == "max" else max(0, int(limit) - used + cached)


def _machine_left() -> int:
    try:
        return _field(Path("/proc/meminfo"), "MemAvailable:") * 1024
    except (OSError, ValueError):  # not Linux
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _field(path: Path, name: str) -> int:
    """A number from a file of lines `name number ...`."""
    for line in path.read_text().splitlines():
        key, number, *_ = line.split()
        if key == name:
            return int(number)
    raise ValueError(f"{path} has no {name}")
