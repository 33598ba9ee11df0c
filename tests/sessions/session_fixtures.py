"""What the session tests share: what is asked for, a plain reducer, and a manager to ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from scripted_engine import ScriptedEngine

from engine.api import Control, ControlRefused, FrozenJson
from sessions.frozen import FrozenDict
from sessions.limits import Limits
from sessions.manager import SessionManager
from sessions.memory_journal import MemoryJournal
from sessions.spec import Mode, Pacing, SessionSpec

SPEC = SessionSpec(prompt="a meadow", width=96, height=64, fps=16, seed=7, scene="meadow")
STEPPED = replace(SPEC, mode=Mode.STEPPED)
S = replace(STEPPED, session_id="s")
UNPACED = Pacing(to_media_time=False)


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


REDUCERS = {"camera": KeysReducer()}


async def managed(engine: ScriptedEngine | None = None, **options: object) -> SessionManager:
    """A started manager over the scripted engine and a journal in memory."""
    options.setdefault("journal", MemoryJournal())
    options.setdefault("limits", Limits())
    journal = options.pop("journal")
    manager = SessionManager(engine or ScriptedEngine(), journal, REDUCERS, **options)
    await manager.start()
    return manager


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until the condition holds."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 (any condition, and nothing waits for time)
            await asyncio.sleep(0)


async def calm(turns: int = 50) -> None:
    """Let everything that can happen happen."""
    for _ in range(turns):
        await asyncio.sleep(0)
