"""`worldline sessions`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from app.bootstrap import build_journal, build_reducers
from app.settings import Settings
from sessions.errors import JournalCorrupt, SessionError
from sessions.history import read_history
from sessions.info import SessionInfo, info_of

DataOption = Annotated[
    Path, typer.Option(help="Directory of journal, snapshots and recordings.", envvar="WORLDLINE_DATA")
]


def sessions(data: DataOption = Path("data")) -> None:
    """List the sessions that are not closed, from the journal: a server need not run.

    Those of a stopped server are suspended; they go on when they are used again. Exits with status 2 where
    one, or the whole journal, can't be read.
    """
    found, unreadable = asyncio.run(_sessions(Settings(data=data)))
    table = Table("session", "status", "opened", "epoch", "chunks", "pending", "prompt")
    for info in found:
        opened = datetime.fromtimestamp(info.opened_at, UTC).strftime("%Y-%m-%d %H:%M:%S")
        numbers = (str(info.epoch), str(info.chunk_index), str(len(info.pending_event_ids)))
        table.add_row(info.session_id, info.state.value, opened, *numbers, info.spec.prompt[:40])
    if found or not unreadable:
        Console().print(table if found else "No sessions are open.")
    for complaint in unreadable:
        typer.echo(f"worldline sessions: {complaint}", err=True)
    if unreadable:
        raise typer.Exit(2)


async def _sessions(settings: Settings) -> tuple[list[SessionInfo], list[str]]:
    """The sessions, and what is wrong with those that can't be read."""
    journal = build_journal(settings)
    found: list[SessionInfo] = []
    unreadable: list[str] = []
    try:
        await journal.start()
        for life in await journal.open_lives():
            try:
                history = await read_history(journal, life.world, build_reducers())
            except JournalCorrupt as error:
                unreadable.append(f"session {life.session_id}: {error}")
            else:
                found.append(info_of(history.protocol, history.spec, life.opened_at, asleep=True))
    except SessionError as error:
        unreadable.append(str(error))
    finally:
        await journal.stop()
    return found, unreadable
