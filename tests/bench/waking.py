"""How long a suspended session takes to wake, by its length: from its newest snapshot on, and without one.

The session layer with its journal and snapshots on the disk, over an engine that computes nothing; `facts`
is how many the journal has of the session. One without a snapshot also runs all its chunks again at its
next one.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "sessions"))

from scripted_engine import ScriptedEngine
from session_fixtures import STEPPED, KeysReducer, keys

from sessions.events import Event
from sessions.folder_snapshots import FolderSnapshots
from sessions.manager import SessionManager
from sessions.sql_journal import SqlJournal

LENGTHS = (100, 1000, 5000)
REPEATS = 5


def manager_over(folder: Path, snapshots: bool) -> SessionManager:
    store = FolderSnapshots(folder / "snapshots") if snapshots else None
    journal = SqlJournal(f"sqlite:///{folder}/journal.db")
    return SessionManager(ScriptedEngine(), journal, {"camera": KeysReducer()}, snapshots=store)


async def walk(folder: Path, chunks: int) -> int:
    """Play so many chunks, each with an event, and suspend; how many facts that made."""
    manager = manager_over(folder, snapshots=True)
    await manager.start()
    session = await manager.create(replace(STEPPED, session_id="s"))
    for number in range(chunks):
        await session.submit(Event(number, None, (keys("wasd"[number % 4]),)))
        await session.run_chunk()
    await manager.stop()
    return 3 * chunks + 2


async def woken(folder: Path, snapshots: bool) -> float:
    """Milliseconds until it is awake, in a server that has just started."""
    manager = manager_over(folder, snapshots)
    await manager.start()
    began = time.perf_counter()
    await manager.awake("s")
    took = (time.perf_counter() - began) * 1000
    await manager.stop()
    return took


async def measure(folder: Path, chunks: int) -> dict[str, float]:
    facts = await walk(folder, chunks)
    recent = [await woken(folder, snapshots=True) for _ in range(REPEATS)]
    whole = [await woken(folder, snapshots=False) for _ in range(REPEATS)]
    return {
        "chunks": chunks,
        "facts": facts,
        "wake_ms": round(statistics.median(recent), 2),
        "wake_fastest_ms": round(min(recent), 2),
        "without_snapshot_ms": round(statistics.median(whole), 2),
    }


def main() -> None:
    """Print one JSON line for each length."""
    with tempfile.TemporaryDirectory() as folder:
        for chunks in LENGTHS:
            each = Path(folder) / str(chunks)
            each.mkdir()
            figures = asyncio.run(measure(each, chunks))
            sys.stdout.write(json.dumps({"bench": "waking", **figures}) + "\n")


if __name__ == "__main__":
    main()
