"""Whole sessions under faults, through the manager."""

from __future__ import annotations

import torch
from drill import Draw, expect, pick
from failing_memory import FailingMemory
from torch import Tensor

from kvcache.capacity import plan
from kvcache.errors import CleanupFailed, OutOfMemory, OwnerExists, OwnerTombstoned
from kvcache.geometry import Geometry
from kvcache.manager import CacheManager
from kvcache.slots import SlotRule


class ManagerDrill:
    """Whole sessions under faults: what a view shows is what its committed blocks wrote."""

    GEOMETRY = Geometry(
        layers=1,
        kv_heads=1,
        head_dim=1,
        dtype="float32",
        tokens_per_frame=1,
        sink_frames=2,
        window_frames=4,
        frames_per_block=2,
        cross_tokens=1,
    )
    RULE = SlotRule(2, 6, 2)

    def __init__(self) -> None:
        self.memory = FailingMemory()
        self.manager = CacheManager(self.memory, plan(self.GEOMETRY, 10**6, 1, 3))
        self.histories: dict[str, list[int]] = {}  # open sessions
        self.tombstones: set[str] = set()
        self.next = 0
        self.operations = (
            self.open,
            self.open,
            self.open,
            self.chunk,
            self.chunk,
            self.chunk,
            self.cancel,
            self.reset,
            self.close,
            self.close_badly,
            self.move,
        )

    def name(self, draw: Draw) -> str:
        return pick(draw, "abcde")

    def open(self, draw: Draw) -> None:
        """Now and then without memory."""
        name = self.name(draw)
        self.memory.full = draw.below(4) == 0
        try:
            self.manager.open(name, self.GEOMETRY)
            self.histories[name] = []
        except (OutOfMemory, OwnerExists, OwnerTombstoned, MemoryError) as error:
            refused = name in self.histories or name in self.tombstones
            full = len(self.histories) + len(self.tombstones) >= 3
            assert refused or full or isinstance(error, MemoryError)
        finally:
            self.memory.full = False

    def block(self, name: str) -> tuple[list[int], Tensor]:
        """One block's forward passes: probes that write noise, and the commit's."""
        view = self.manager._open[name].view
        block = view.begin()
        noise = torch.full((1, 1, 2, 1), -1.0)
        block.write(0, noise, noise)
        self.next += 2
        mine = [self.next, self.next + 1]
        tokens = torch.tensor(mine, dtype=torch.float32).view(1, 1, 2, 1)
        seen, _ = block.write(0, tokens, tokens)
        return mine, seen

    def chunk(self, draw: Draw) -> None:
        if self.histories:
            name = pick(draw, list(self.histories))
            mine, seen = self.block(name)
            history = self.histories[name]
            history += mine
            wanted = {*history[:2], *history[-4:]}
            assert {int(token) for token in seen.flatten().tolist()} == wanted
            self.manager._open[name].view.commit()

    def cancel(self, draw: Draw) -> None:
        if self.histories:
            name = pick(draw, list(self.histories))
            self.block(name)
            self.manager._open[name].view.rollback()

    def reset(self, draw: Draw) -> None:
        if self.histories and draw.below(3) == 0:
            name = pick(draw, list(self.histories))
            self.manager._open[name].view.reset()
            self.histories[name] = []

    def close(self, draw: Draw) -> None:
        name = self.name(draw)
        if draw.below(2):
            self.manager.close(name)
            self.histories.pop(name, None)
            self.tombstones.discard(name)

    def close_badly(self, draw: Draw) -> None:
        name = self.name(draw)
        present = name in self.histories or name in self.tombstones
        self.memory.stuck = True
        expect(not present, CleanupFailed, lambda: self.manager.close(name))
        self.memory.stuck = False
        if present:
            self.histories.pop(name, None)
            self.tombstones.add(name)

    def move(self, draw: Draw) -> None:
        """A snapshot of one session, restored into another."""
        if len(self.histories) >= 2:
            names = list(self.histories)
            source, target = pick(draw, names), pick(draw, names)
            state = self.manager._open[source].view.state()
            self.manager._open[target].view.restore(state)
            self.histories[target] = list(self.histories[source])

    def check(self) -> None:
        assert self.manager.is_balanced()
        assert len(self.manager) == len(self.histories) + len(self.tombstones)
        for name, history in self.histories.items():
            caches = self.manager._open[name]
            assert caches.view.frames == len(history)
        filled = sum(len(item.view._table.pages) for item in self.manager._open.values())
        assert self.manager.pool is not None
        assert self.manager.pool.in_use == filled

    def finish(self) -> None:
        self.manager.close_all()
        assert self.manager.pool is not None
        assert self.memory.live_bytes == self.memory.allocations == self.manager.pool.in_use == 0
        assert self.manager.is_balanced()
