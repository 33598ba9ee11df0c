"""Runs a function on several processes that form a gloo group.

They fork from a server that has imported torch and done nothing with it: importing it is most of what a
rank costs.
"""

import multiprocessing
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def on_ranks(world: int, function: Callable[..., Any], *args: Any) -> list[Any]:
    """What `function(*args)` returns on each of `world` ranks. It is importable and takes plain data."""
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.get_context("forkserver").set_forkserver_preload(["torch", "torch.distributed"])
        mp.start_processes(_one_rank, (world, folder, function, args), world, start_method="forkserver")
        return [torch.load(Path(folder) / f"{rank}.pt", weights_only=True) for rank in range(world)]


def _one_rank(
    rank: int, world: int, folder: str, function: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    store = dist.FileStore(str(Path(folder) / "store"), world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    try:
        torch.save(function(*args), Path(folder) / f"{rank}.pt")
        dist.barrier()
    finally:
        dist.destroy_process_group()
