"""A history read from a snapshot on is the whole one, and costs a long session no more than a short one."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from memory_stores import MemorySnapshots
from scripted_engine import ScriptedEngine
from session_fixtures import REDUCERS, SPEC, UNPACED, S, calm, keys, managed
from session_steps import everything, misbehave

from sessions.archive import Archive
from sessions.checkpoint import decode_checkpoint
from sessions.errors import JournalCorrupt, JournalUnavailable, SessionError
from sessions.events import Event
from sessions.facts import ChunkCommitted, Fact
from sessions.folder_snapshots import FolderSnapshots
from sessions.history import History
from sessions.journal import Record
from sessions.limits import Limits
from sessions.manager import SessionManager
from sessions.memory_journal import MemoryJournal
from sessions.session import Session


class CountingJournal(MemoryJournal):
    """Counts the facts that are read from it."""

    def __init__(self) -> None:
        super().__init__()
        self.facts_read = 0

    async def read(self, world: str, after: int = -1, limit: int | None = None) -> list[Record]:
        records = await super().read(world, after, limit)
        self.facts_read += len(records)
        return records


async def walk(session: Session, first: int, last: int) -> list[str]:
    """With prompts too, which a checkpoint has to know."""
    digests = []
    for number in range(first, last):
        await session.submit(Event(number, "rain" if number % 7 == 3 else None, (keys("wasd"[number % 4]),)))
        digests.append((await session.run_chunk()).media.digest)
    return digests


def compared(history: History, among: History) -> dict[str, object]:
    """All of it that is known of both."""
    line = history.line[among.base - history.base :]
    ways = {"line": line, "start": history.conditions_at(among.base), "floor": history.floor_at(among.base)}
    rest = {"count": history.count, "transport": history.transport_index, "flight": history.flight}
    return {**everything(history.protocol), **ways, **rest, "opened": history.opened}


@pytest.mark.parametrize("seed", range(12))
async def test_a_history_from_a_snapshot_on_equals_the_whole_one(seed: int) -> None:
    dice, engine, journal = random.Random(seed), ScriptedEngine(), MemoryJournal()
    snapshots = MemorySnapshots()
    manager = await managed(engine, journal=journal, snapshots=snapshots, limits=Limits(snapshot_every=3))
    session = await manager.create(replace(SPEC, pacing=UNPACED, script=keys("w")))
    outbox = session.play()
    archive = Archive(journal, snapshots, REDUCERS, 32)
    world = session.info().world

    async def read() -> None:
        async for _ in outbox:
            await asyncio.sleep(0)

    async def go_back() -> None:
        await session.rewind(dice.randrange(session.info().chunk_index + 1))

    reader = asyncio.create_task(read())
    deeds = []
    for number in range(60):
        deeds.append(
            asyncio.create_task(go_back() if number % 20 == 19 else misbehave(session, dice, engine))
        )
        await calm(dice.randrange(5))
        recent, whole = await archive.recent(world), await archive.whole(world)
        assert compared(recent, recent) == compared(whole, recent)
    engine.gate.set()
    for outcome in await asyncio.gather(*deeds, return_exceptions=True):
        assert outcome is None or isinstance(outcome, SessionError)
    await session.stop()
    await reader
    recent, whole = await archive.recent(world), await archive.whole(world)
    assert compared(recent, recent) == compared(whole, recent)
    assert everything(recent.protocol) == everything(session._protocol)
    await manager.stop()


async def woken_after(chunks: int) -> tuple[int, int]:
    """Facts that were read, and chunks that were run, for the next chunk of a session that long."""
    journal, engine, snapshots = CountingJournal(), ScriptedEngine(), MemorySnapshots()
    manager = await managed(engine, journal=journal, snapshots=snapshots)
    await walk(await manager.create(S), 0, chunks)
    await manager.stop()
    engine, journal.facts_read = ScriptedEngine(), 0
    manager = await managed(engine, journal=journal, snapshots=snapshots)
    await manager.info("s")
    await walk(await manager.awake("s"), chunks, chunks + 1)
    await manager.stop()
    return journal.facts_read, len(engine.ticks)


async def test_waking_a_long_session_costs_what_waking_a_short_one_does() -> None:
    assert await woken_after(400) == await woken_after(40)


@dataclass(frozen=True)
class Suspended:
    """A session of five chunks with snapshots behind three and five, and a server that has it asleep."""

    manager: SessionManager
    snapshots: MemorySnapshots
    digests: list[str]

    async def goes_on_undisturbed(self) -> None:
        digests = self.digests + await walk(await self.manager.awake("s"), 5, 7)
        assert digests == await walk(await (await managed()).create(S), 0, 7)


@pytest.fixture
async def suspended() -> Suspended:
    journal, snapshots = MemoryJournal(), MemorySnapshots()
    manager = await managed(journal=journal, snapshots=snapshots, limits=Limits(snapshot_every=3))
    digests = await walk(await manager.create(S), 0, 5)
    await manager.stop()
    return Suspended(await managed(journal=journal, snapshots=snapshots), snapshots, digests)


@pytest.mark.parametrize("spoiled", [b"{", b"{}", b'{"facts": 3, "point": {"epoch": 0}}', b""])
async def test_a_checkpoint_that_can_not_be_read_costs_time_and_nothing_else(
    suspended: Suspended, spoiled: bytes
) -> None:
    for key in suspended.snapshots.sessions:
        suspended.snapshots.sessions[key] = spoiled
    await suspended.goes_on_undisturbed()


async def test_a_checkpoint_beyond_the_journal_is_not_believed(suspended: Suspended) -> None:
    for key, content in suspended.snapshots.sessions.items():
        facts = decode_checkpoint(content).facts
        suspended.snapshots.sessions[key] = content.replace(f'"facts":{facts}'.encode(), b'"facts":999')
    await suspended.goes_on_undisturbed()


async def test_a_snapshot_that_is_lost_behind_its_checkpoint_costs_time_and_nothing_else(
    suspended: Suspended,
) -> None:
    for key in suspended.snapshots.data:
        suspended.snapshots.data[key] = b"torn"
    await suspended.goes_on_undisturbed()


async def test_before_a_checkpoint_it_can_still_be_rewound_and_forked(
    suspended: Suspended,
) -> None:
    manager, digests = suspended.manager, suspended.digests
    fork = await manager.fork("s", replace(S, session_id="fork"), 1)
    assert await walk(fork, 1, 4) == digests[1:4]
    head = await manager.fork("s", replace(S, session_id="head"), 5)
    session = await manager.awake("s")
    assert await walk(head, 5, 6) == await walk(session, 5, 6)
    await session.rewind(2)
    session = manager.get("s")
    await session.submit(Event(90, None, (keys("s"),)))
    assert (await session.run_chunk()).media.digest == digests[2]


class LosesCommits(MemoryJournal):
    """As a full disk does."""

    lost = False

    def _append(self, world: str, expected: int, fact: Fact, at: float) -> None:
        if isinstance(fact, ChunkCommitted) and fact.chunk_index == 2:
            self.lost = True
            raise JournalUnavailable("full")
        super()._append(world, expected, fact, at)


async def test_no_checkpoint_is_kept_of_what_the_journal_has_lost() -> None:
    journal, snapshots = LosesCommits(), MemorySnapshots()
    manager = await managed(journal=journal, snapshots=snapshots, limits=Limits(snapshot_every=3))
    session = await manager.create(S)
    with pytest.raises(SessionError):
        await walk(session, 0, 4)
    assert journal.lost
    await calm()
    assert not any(snapshots.sessions.values())


async def test_a_damaged_session_in_a_file_is_passed_over_for_an_older_one(tmp_path: Path) -> None:
    store = FolderSnapshots(tmp_path)
    await store.start()
    journal = MemoryJournal()
    manager = await managed(journal=journal, snapshots=store, limits=Limits(snapshot_every=2))
    session = await manager.create(S)
    await walk(session, 0, 4)
    world = session.info().world
    await session.suspend("disconnected")
    kept = await store.session(world)
    assert kept is not None and decode_checkpoint(kept).standing.chunk_index == 4
    path = tmp_path / world / "0-4.snapshot"
    path.write_bytes(path.read_bytes().replace(b'"chunk_index":4', b'"chunk_index":9'))
    older = await store.session(world)
    assert older is not None and decode_checkpoint(older).standing.chunk_index == 2
    assert not path.exists()
    with pytest.raises(JournalCorrupt):
        decode_checkpoint(b"no JSON")
    await manager.stop()
