"""What the session tests share: an engine that obeys, a clock that stands still, a plain reducer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from engine.api import (
    CapacityReached,
    ChunkCancelled,
    ChunkCommitted,
    ChunkReady,
    Control,
    ControlRefused,
    EncodedChunk,
    EngineLost,
    EngineState,
    EngineStatus,
    FrozenJson,
    ModelCard,
    OpenWorld,
    SnapshotRefused,
    StageTimes,
    Tick,
    UnknownWorld,
    WorldSnapshot,
)
from sessions.errors import StorageUnavailable
from sessions.frozen import FrozenDict, digest
from sessions.limits import Limits
from sessions.manager import SessionManager
from sessions.memory_journal import MemoryJournal
from sessions.recordings import START, RecordedChunk
from sessions.snapshots import Point, Pruned, StoredSnapshot, any_point
from sessions.spec import Mode, SessionSpec

CARD = ModelCard(
    name="scripted",
    width=96,
    height=64,
    fps=16,
    size_multiple=16,
    max_pixels=96 * 64,
    first_chunk_frames=9,
    chunk_frames=12,
    frames_per_block=3,
    steps=4,
    capacity=8,
    scenes=(),
    control_schemas={"camera": ("keys.v1",)},
)
SPEC = SessionSpec(prompt="a meadow", width=96, height=64, fps=16, seed=7, scene="meadow")
STEPPED = replace(SPEC, mode=Mode.STEPPED)


def keys(*pressed: str) -> Control:
    return Control("camera", "keys.v1", {"keys": list(pressed)})


class KeysReducer:
    """Counts blocks and keeps the keys; `bad` is refused. Behind `script`, each key is for one block."""

    track = "camera"
    schemas = ("keys.v1",)

    def initial(self) -> FrozenJson:
        return FrozenDict(keys=(), blocks=0)

    def validate(self, control: Control) -> None:
        if "bad" in control.data["keys"]:
            raise ControlRefused("data.keys[0]", "keys are w, a, s, d; got 'bad'")

    def apply(self, state: FrozenJson, control: Control) -> FrozenJson:
        return FrozenDict(keys=tuple(control.data["keys"]), blocks=state["blocks"])

    def advance(self, state: FrozenJson) -> tuple[FrozenJson, FrozenJson]:
        keys = state["keys"]
        left = keys[:-1] if keys[:1] == ("script",) and len(keys) > 1 else keys
        return FrozenDict(keys=left, blocks=state["blocks"] + 1), state

    def spent(self, state: FrozenJson) -> bool:
        return bool(state["keys"] == ("script",))


class ManualClock:
    """Moves when it is told to."""

    def __init__(self) -> None:
        self.time = 100.0
        self._alarms: list[ManualAlarm] = []

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return 1_700_000_000.0 + self.time

    def call_at(self, when: float, callback: Callable[[], object]) -> ManualAlarm:
        alarm = ManualAlarm(when, callback)
        self._alarms.append(alarm)
        return alarm

    @property
    def next_alarm(self) -> float | None:
        self._alarms = [alarm for alarm in self._alarms if not alarm.cancelled]
        return min((alarm.when for alarm in self._alarms), default=None)

    def advance(self, seconds: float) -> None:
        self.time += seconds
        due = [alarm for alarm in self._alarms if alarm.when <= self.time]
        self._alarms = [alarm for alarm in self._alarms if alarm.when > self.time]
        for alarm in due:
            if not alarm.cancelled:
                alarm.callback()


class ManualAlarm:
    def __init__(self, when: float, callback: Callable[[], object]) -> None:
        self.when = when
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ScriptedWorld:
    def __init__(self, request: OpenWorld) -> None:
        self.request = request
        self.history: list[str] = []  # the digests of its committed chunks
        self.turn = asyncio.Lock()
        self.cancelled = asyncio.Event()


class ScriptedEngine:
    """An engine whose frames are digests of all that a chunk depends on. Faults come by subclass.

    `gate` is passed before a chunk is ready: clear it to keep chunks in flight. So is `commits` for commits.
    """

    def __init__(self, capacity: int = 8) -> None:
        self.card = replace(CARD, capacity=capacity)
        self.worlds: dict[str, ScriptedWorld] = {}
        self.state = EngineState.STARTING
        self.gate = asyncio.Event()
        self.gate.set()
        self.commits = asyncio.Event()
        self.commits.set()
        self.ticks: list[Tick] = []
        self.slacks: list[float | None] = []
        self.log: list[str] = []

    async def start(self) -> ModelCard:
        self.state = EngineState.READY
        return self.card

    async def stop(self) -> None:
        self.state = EngineState.STOPPED

    def status(self) -> EngineStatus:
        return EngineStatus(self.state, "", len(self.worlds), 0, 0, 0)

    async def open_world(self, request: OpenWorld) -> None:
        if len(self.worlds) >= self.card.capacity:
            raise CapacityReached("full")
        assert request.world not in self.worlds
        self.worlds[request.world] = ScriptedWorld(request)
        self.log.append("open")

    async def run_chunk(
        self, tick: Tick, slack_s: float | None = None
    ) -> AsyncIterator[ChunkReady | ChunkCommitted]:
        world = self.world(tick.world)
        self.ticks.append(tick)
        self.slacks.append(slack_s)
        world.cancelled.clear()
        async with world.turn:
            await self.probe(tick)
            await either(self.gate, world.cancelled)
            if world.cancelled.is_set():
                raise ChunkCancelled("cancelled")
            assert len(world.history) == tick.chunk_index, "the session and its world disagree"
            media = picture(world, tick)
            yield await self.ready(tick, media)
            await self.commits.wait()
            committed = await self.commit(tick)
            world.history.append(media.digest)
            yield committed

    async def probe(self, tick: Tick) -> None:
        """Override to fail while it computes."""

    async def ready(self, tick: Tick, media: EncodedChunk) -> ChunkReady:
        return ChunkReady(tick, media, StageTimes(1.0, 2.0, 3.0, 4.0))

    async def commit(self, tick: Tick) -> ChunkCommitted:
        return ChunkCommitted(tick, 5.0)

    async def cancel_chunk(self, world: str) -> None:
        if world in self.worlds:
            self.worlds[world].cancelled.set()

    async def reset_world(self, world: str) -> None:
        async with self.world(world).turn:
            self.world(world).history.clear()
            self.log.append("reset")

    async def close_world(self, world: str) -> None:
        if world in self.worlds:
            self.worlds[world].cancelled.set()
            async with self.worlds[world].turn:
                self.worlds.pop(world, None)
            self.log.append("close")

    async def snapshot_world(self, world: str) -> WorldSnapshot:
        history = self.world(world).history
        self.log.append("snapshot")
        return WorldSnapshot(world, len(history), json.dumps(history).encode())

    async def restore_world(self, request: OpenWorld, snapshot: bytes) -> None:
        try:
            history = json.loads(snapshot)
        except ValueError as error:
            raise SnapshotRefused("not JSON") from error
        await self.open_world(request)
        self.worlds[request.world].history = history
        self.log[-1] = "restore"

    async def fork_world(self, source: str, request: OpenWorld) -> None:
        history = list(self.world(source).history)
        await self.open_world(request)
        self.worlds[request.world].history = history
        self.log[-1] = "fork"

    def world(self, name: str) -> ScriptedWorld:
        if self.state is not EngineState.READY:
            raise EngineLost("the worker died")
        if name not in self.worlds:
            raise UnknownWorld(f"no world {name}")
        return self.worlds[name]


class Mortal(ScriptedEngine):
    """Its worker can die and come back without its worlds."""

    def die(self) -> None:
        self.state = EngineState.RESTARTING
        for world in self.worlds.values():
            world.cancelled.set()
        self.worlds.clear()

    def come_back(self) -> None:
        self.state = EngineState.READY

    async def probe(self, tick: Tick) -> None:
        await self.gate.wait()
        self.world(tick.world)

    async def commit(self, tick: Tick) -> ChunkCommitted:
        self.world(tick.world)
        return await super().commit(tick)


class MemorySnapshots:
    """Snapshots in a dict; `full` refuses to write, and `data` may be spoiled."""

    def __init__(self) -> None:
        self.data: dict[tuple[str, Point], bytes] = {}
        self.sessions: dict[tuple[str, Point], bytes] = {}
        self.full = False

    def tell(self, listener: Callable[[Pruned], None]) -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def save(self, world: str, point: Point, data: bytes, session: bytes = b"") -> None:
        if self.full:
            raise StorageUnavailable("no space left on device")
        self.data[world, point] = data
        self.sessions[world, point] = session

    async def session(self, world: str) -> bytes | None:
        kept = [self.sessions.get((world, point)) for point in reversed(await self.points(world))]
        return next(filter(None, kept), None)

    async def newest(self, world: str, usable: Callable[[Point], bool] = any_point) -> StoredSnapshot | None:
        points = [point for point in await self.points(world) if usable(point)]
        return StoredSnapshot(world, points[-1], self.data[world, points[-1]]) if points else None

    async def points(self, world: str) -> list[Point]:
        return sorted(point for name, point in self.data if name == world)

    async def discard(self, world: str, unusable: Callable[[Point], bool] = any_point) -> None:
        for point in await self.points(world):
            if unusable(point):
                del self.data[world, point]


class MemoryRecordings:
    """Recordings in a list."""

    def __init__(self) -> None:
        self.kept: dict[str, list[RecordedChunk]] = {}
        self.full = False

    def tell(self, listener: Callable[[Pruned], None]) -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def append(self, world: str, chunk: RecordedChunk) -> None:
        if self.full:
            raise StorageUnavailable("no space left on device")
        if chunk not in self.kept.setdefault(world, []):
            self.kept[world].append(chunk)

    async def chunks(self, world: str, since: tuple[int, int] = START) -> AsyncIterator[RecordedChunk]:
        for chunk in self.kept.get(world, []):
            yield chunk

    async def discard(self, world: str) -> None:
        self.kept.pop(world, None)


def picture(world: ScriptedWorld, tick: Tick) -> EncodedChunk:
    """Frames that differ wherever seed, history, prompt, or conditioning do."""
    frames = 9 if tick.chunk_index == 0 else 12
    first = 0 if tick.chunk_index == 0 else 9 + 12 * (tick.chunk_index - 1)
    seen = digest([world.request.seed, *world.history, tick.prompt, tick.conditioning])
    data = tuple(f"{seen}:{first + i}".encode() for i in range(frames))
    return EncodedChunk("h264", "avc1.42c01e", 96, 64, 16, first, data, seen)


async def either(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until the condition holds."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 (any condition, and nothing waits for time)
            await asyncio.sleep(0)


async def calm(turns: int = 50) -> None:
    """Let everything that can happen happen."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def managed(engine: ScriptedEngine | None = None, **options: object) -> SessionManager:
    """A started manager over the scripted engine and a journal in memory."""
    options.setdefault("journal", MemoryJournal())
    options.setdefault("limits", Limits())
    journal = options.pop("journal")
    manager = SessionManager(engine or ScriptedEngine(), journal, {"camera": KeysReducer()}, **options)
    await manager.start()
    return manager
