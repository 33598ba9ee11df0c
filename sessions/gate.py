"""Whether sessions may come: not before the engine has started, nor once the service stops."""

from __future__ import annotations

from engine.api import Engine, EngineState, ModelCard
from sessions.errors import Draining, EngineUnavailable
from sessions.services import Services


class Gate:
    """Hands out what sessions share: it is opened with that, and shut for good."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._services: Services | None = None
        self._shut = False

    @property
    def card(self) -> ModelCard | None:
        """Of the model; None until the engine is ready."""
        return None if self._services is None else self._services.card

    def open(self, services: Services) -> None:
        """The engine has started."""
        self._services = services

    def shut(self) -> None:
        """The service stops; idempotent."""
        self._shut = True

    def for_new(self) -> Services:
        """For a session whose world is made now. Raises `Draining`, `EngineUnavailable`."""
        self._require_open()
        status = self._engine.status()
        if self._services is None or status.state is not EngineState.READY:
            raise EngineUnavailable(f"the engine is {status.state}: {status.reason or 'try again'}")
        return self._services

    def for_sleeping(self) -> Services:
        """For a session that wakes: until its next chunk it needs no world. Raises as `for_new` does."""
        self._require_open()
        if self._services is None:
            raise EngineUnavailable(self._engine.status().reason or "the engine is starting")
        return self._services

    def _require_open(self) -> None:
        if self._shut:
            raise Draining("the service is shutting down")
