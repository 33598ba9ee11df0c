"""What is heard of sessions while their server still starts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from scripted_engine import ScriptedEngine
from session_fixtures import REDUCERS, S, calm, managed

from sessions.errors import EngineUnavailable
from sessions.journal import Life
from sessions.manager import SessionManager
from sessions.memory_journal import MemoryJournal
from sessions.state import SessionState


class SlowLives(MemoryJournal):
    """Says which sessions are open once `found` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.found = asyncio.Event()

    async def open_lives(self) -> list[Life]:
        await self.found.wait()
        return await super().open_lives()


@pytest.mark.parametrize(
    "ask",
    [
        lambda manager: manager.info("s"),
        lambda manager: manager.awake("s"),
        lambda manager: manager.ready("s", lambda position: None),
        lambda manager: manager.close("s"),
        lambda manager: manager.list(),
    ],
    ids=["info", "awake", "ready", "close", "list"],
)
async def test_nobody_hears_that_a_session_is_gone_before_its_server_knows(
    ask: Callable[[SessionManager], Awaitable[object]],
) -> None:
    journal = SlowLives()
    journal.found.set()
    before = await managed(journal=journal)
    await before.create(S)
    await before.stop()
    journal.found.clear()
    manager = SessionManager(ScriptedEngine(), journal, REDUCERS)
    starting = asyncio.create_task(manager.start())
    await calm()
    with pytest.raises(EngineUnavailable, match="the server is starting"):
        await ask(manager)
    journal.found.set()
    await starting
    assert (await manager.info("s")).state is SessionState.SUSPENDED
    await manager.stop()
