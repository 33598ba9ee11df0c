"""A host without a model: every stage is a scene that a test can direct."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.api import (
    CapacityReached,
    ModelCard,
    OpenWorld,
    SnapshotRefused,
    Tick,
    WorldLedger,
    WorldRefused,
)
from engine.pattern.card import pattern_card
from engine.worker.host import HostLost, LoadRefused
from engine.worker.messages import Usage

PROBES = 4


def request(world: str, seed: int = 1) -> OpenWorld:
    """Ask for a world of 32x16 pixels."""
    return OpenWorld(world, "a plain", 32, 16, 16, seed, scene="plain")


def tick(world: str, index: int) -> Tick:
    """The tick of a world's chunk `index`."""
    return Tick("session", world, 0, f"{world}/{index}", index, (), "a plain")


class Stage:
    """Called with (stage, world, chunk index); a subclass waits, records or raises."""

    def reach(self, name: str, world: str, chunk: int) -> None: ...


class Record(Stage):
    """Keeps what happened, and holds a stage until the test lets it go."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, int]] = []
        self._held: dict[tuple[str, str], threading.Event] = {}
        self._reached: dict[tuple[str, str], threading.Event] = {}
        self._raising: dict[tuple[str, str], list[Exception]] = {}

    def hold(self, name: str, world: str) -> tuple[threading.Event, threading.Event]:
        """(reached, go): the stage sets the first and waits for the second."""
        key = (name, world)
        self._reached[key], self._held[key] = threading.Event(), threading.Event()
        return self._reached[key], self._held[key]

    def fail(self, name: str, world: str, error: Exception) -> None:
        """The next time, the stage raises."""
        self._raising.setdefault((name, world), []).append(error)

    def reach(self, name: str, world: str, chunk: int) -> None:
        key = (name, world)
        self.events.append((name, world, chunk))
        if key in self._held:
            self._reached[key].set()
            assert self._held[key].wait(30), f"nobody let {key} go"
        if self._raising.get(key):
            raise self._raising[key].pop(0)


class Chunk:
    def __init__(self, world: World, tick: Tick) -> None:
        self.world = world
        self.tick = tick

    def forwards(self) -> Iterator[None]:
        for _ in range(PROBES):
            self.world.staged = int(self.world.random.integers(256))
            self.world.reach("probe")
            yield

    def decode(self) -> NDArray[np.uint8]:
        self.world.reach("decode")
        frames = 12 if self.world.chunks else 9
        tone = (self.world.tone + self.world.staged) % 256
        noise = np.random.default_rng(tone).integers(0, 256, (frames, 16, 32, 3))
        return noise.astype(np.uint8)

    def write(self) -> None:
        self.world.reach("write")


class World:
    """Its state is a generator and a tone; a rollback brings both back."""

    def __init__(self, host: ScriptedHost, request: OpenWorld) -> None:
        self.host = host
        self.request = request
        self.chunks = 0
        self.tone = 0
        self.staged = 0
        self.random = np.random.default_rng(request.seed)
        self.saved = self.random.bit_generator.state

    def reach(self, name: str) -> None:
        self.host.stage.reach(name, self.request.world, self.chunks)

    def begin_chunk(self, tick: Tick) -> Chunk:
        self.saved = self.random.bit_generator.state
        self.reach("begin")
        return Chunk(self, tick)

    def commit(self) -> None:
        self.reach("commit")
        self.chunks += 1
        self.tone = (self.tone + self.staged) % 256

    def rollback(self) -> None:
        self.reach("rollback")
        self.random.bit_generator.state = self.saved

    def reset(self) -> None:
        self.reach("reset")
        self.chunks = self.tone = 0
        self.random = np.random.default_rng(self.request.seed)

    def snapshot(self) -> Callable[[], bytes]:
        self.reach("snapshot")
        copy = json.dumps([self.chunks, self.tone, self.random.bit_generator.state])

        def pack() -> bytes:
            self.reach("pack")
            return copy.encode()

        return pack

    def fork(self, request: OpenWorld) -> World:
        world = self.host.open(request)
        world.become(self.snapshot()())
        return world

    def become(self, snapshot: bytes) -> None:
        self.chunks, self.tone, self.random.bit_generator.state = json.loads(snapshot)

    def close(self) -> None:
        self.reach("close")
        self.host.worlds -= 1


class ScriptedHost:
    def __init__(self, stage: Stage | None = None, capacity: int = 8) -> None:
        self.stage = stage or Stage()
        self.capacity = capacity
        self.worlds = 0

    def load(self) -> ModelCard:
        return pattern_card(self.capacity)

    def open(self, request: OpenWorld) -> World:
        if request.scene not in (None, "plain"):
            raise WorldRefused("scene", f"scene is {request.scene!r}; allowed is plain")
        if self.worlds >= self.capacity:
            raise CapacityReached(f"all {self.capacity} worlds are taken")
        self.stage.reach("open", request.world, 0)
        self.worlds += 1
        return World(self, request)

    def restore(self, request: OpenWorld, snapshot: bytes) -> World:
        if not snapshot.startswith(b"["):
            raise SnapshotRefused("the snapshot is damaged")
        world = self.open(request)
        world.become(snapshot)
        return world

    def usage(self) -> Usage:
        return Usage(3 * self.worlds, 3 * self.capacity)

    def ledger(self, world: str) -> WorldLedger:
        self.stage.reach("ledger", world, 0)
        return WorldLedger(world, (), 0, balanced=True)


# What a worker process may be told to do: a function to call when a stage of a world is reached, by name.
DEEDS: dict[str, Callable[[], None]] = {
    "exit": lambda: os._exit(7),
    "lose": lambda: (_ for _ in ()).throw(HostLost("the device fell off the bus")),  # type: ignore[misc]
    "raise": lambda: (_ for _ in ()).throw(RuntimeError("the model broke")),  # type: ignore[misc]
    "hog": lambda: hold_interpreter(3.0),
    "hang": threading.Event().wait,  # type: ignore[dict-item]
    "print": lambda: print("a word from the model", flush=True),  # noqa: T201
}


class Deed(Stage):
    """Does a deed at a stage of a chunk: `{"probe 1": "exit"}`."""

    def __init__(self, deeds: dict[str, str]) -> None:
        self._deeds = deeds

    def reach(self, name: str, world: str, chunk: int) -> None:
        deed = self._deeds.get(f"{name} {chunk}")
        if deed is not None:
            DEEDS[deed]()


def process_host(deeds: dict[str, str] | None = None, once: str | None = None) -> ScriptedHost:
    """The factory for a worker process; with a path in `once`, only its first life does the deeds."""
    if once is not None:
        if os.path.exists(once):  # noqa: PTH110
            deeds = {}
        open(once, "w").close()  # noqa: PTH123
    host = ScriptedHost(Deed(deeds or {}))
    host.stage.reach("load", "", 0)
    return host


def broken_host() -> ScriptedHost:
    raise RuntimeError("no such checkpoint")


def refusing_host() -> ScriptedHost:
    raise LoadRefused("/nope: no such folder")


def helped_host(pid: str) -> ScriptedHost:
    """A model with a process of its own, whose number goes to the file `pid`."""
    helper = subprocess.Popen(["sleep", "1000"])
    Path(pid).write_text(str(helper.pid))
    return process_host()


def mute_host() -> ScriptedHost:
    sys.stderr.write("out of memory\n")
    sys.stderr.flush()
    os._exit(3)


def hold_interpreter(seconds: float) -> None:
    """Sleep in C without giving up the interpreter lock."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))
