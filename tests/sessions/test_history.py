"""A session rebuilt from its journal is the session that wrote it."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import pytest
from scripted_engine import ScriptedEngine
from session_fixtures import REDUCERS, SPEC, STEPPED, UNPACED, calm, keys, managed
from session_steps import everything, facts_of, misbehave, until_shown

from sessions import facts
from sessions.errors import JournalCorrupt, SessionError
from sessions.events import Event
from sessions.facts import Fact
from sessions.history import rebuild
from sessions.memory_journal import MemoryJournal
from sessions.protocol import SessionProtocol
from sessions.sql_journal import SqlJournal


@pytest.mark.parametrize("seed", range(20))
async def test_a_session_rebuilt_from_its_journal_equals_the_one_that_wrote_it(
    seed: int, tmp_path: Path
) -> None:
    dice, engine = random.Random(seed), ScriptedEngine()
    journal = MemoryJournal() if seed % 2 else SqlJournal(f"sqlite:///{tmp_path}/journal.db")
    manager = await managed(engine, journal=journal)
    session = await manager.create(replace(SPEC, pacing=UNPACED, script=keys("w")))
    outbox = session.play()

    async def read() -> None:
        async for _ in outbox:
            await asyncio.sleep(0)

    reader = asyncio.create_task(read())
    deeds = []
    for _ in range(60):
        deeds.append(asyncio.create_task(misbehave(session, dice, engine)))
        await calm(dice.randrange(5))
    engine.gate.set()
    for outcome in await asyncio.gather(*deeds, return_exceptions=True):
        assert outcome is None or isinstance(outcome, SessionError)  # stale ids, conflicts, full queues
    await session.stop()
    await reader
    rebuilt = rebuild(await facts_of(journal, session), REDUCERS).protocol
    assert everything(rebuilt) == everything(session._protocol)
    assert rebuilt.flight is None
    await session.close()
    assert rebuild(await facts_of(journal, session), REDUCERS).protocol.state is session.info().state
    await manager.stop()


async def test_a_chunk_that_was_shown_and_not_committed_is_to_be_run_again() -> None:
    journal, engine = MemoryJournal(), ScriptedEngine()
    engine.commits.clear()
    session = await (await managed(engine, journal=journal)).create(STEPPED)
    await session.submit(Event(1, "rain"))
    chunk = asyncio.create_task(session.run_chunk())
    await until_shown(session)
    rebuilt = rebuild(await facts_of(journal, session), REDUCERS).protocol
    assert rebuilt.flight is not None
    assert rebuilt.flight.tick == engine.ticks[0]
    assert not rebuilt.can_cancel()
    rebuilt.commit(engine.ticks[0])
    engine.commits.set()
    await chunk
    assert everything(rebuilt) == everything(session._protocol)


OPENED = facts.SessionOpened("s", "w", SPEC)


@pytest.mark.parametrize(
    "history",
    [
        [],
        [facts.SessionClosed("client")],
        [OPENED, OPENED],
        [OPENED, facts.ChunkCommitted(0, 0, (), "sha")],
        [OPENED, facts.SessionReset(5, True)],
        [OPENED, facts.SessionClosed("client"), facts.SessionReset(1, True)],
        [OPENED, facts.SessionClosed("client"), facts.SessionClosed("client")],
    ],
)
def test_facts_that_do_not_follow_from_one_another_are_refused(history: list[Fact]) -> None:
    with pytest.raises(JournalCorrupt):
        rebuild(history, REDUCERS)


def test_a_tick_that_does_not_follow_from_its_events_is_refused() -> None:
    tick = SessionProtocol("s", "w", SPEC.prompt, REDUCERS).begin("r")
    begun = facts.ChunkBegun(replace(tick, prompt="another"), "sha", 0)
    with pytest.raises(JournalCorrupt, match="fact 1"):
        rebuild([OPENED, begun], REDUCERS)
