"""The only place that reaches into the engine. Nothing here imports torch into the server's process."""

from __future__ import annotations

import os
from collections.abc import Mapping

from app.settings import Settings
from engine.api import Engine, Reducer
from engine.camera.reducer import CameraReducer
from engine.worker.messages import Boot
from engine.worker.process import ProcessEngine
from sessions.journal import Journal
from sessions.sql_journal import SqlJournal

PATTERN_HOST = "engine.pattern.host:pattern_host"
NATIVE_HOST = "engine.native:make_host"


def build_engine(settings: Settings) -> Engine:
    """The engine that the settings ask for, not started yet: a worker process that owns the device."""
    if settings.engine == "pattern":
        return ProcessEngine(Boot(PATTERN_HOST))
    threads = settings.threads or os.cpu_count() or 1
    arguments: Mapping[str, object] = {"model": settings.model, "threads": threads}
    return ProcessEngine(Boot(NATIVE_HOST, arguments), {"OMP_NUM_THREADS": str(threads)})


def build_reducers() -> Mapping[str, Reducer]:
    """Control track -> reducer."""
    camera = CameraReducer()
    return {camera.track: camera}


def build_journal(settings: Settings) -> Journal:
    """The journal in the data directory, which is made where it is missing."""
    settings.data.mkdir(parents=True, exist_ok=True)
    return SqlJournal(f"sqlite:///{settings.data.resolve() / 'journal.db'}")
