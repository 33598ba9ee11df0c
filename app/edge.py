"""What every route and socket of one application shares."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

from fastapi import FastAPI
from starlette.requests import HTTPConnection

from app.errors import message_of
from app.fields import IMAGE_FIELD
from app.hosts import check_host
from app.image_fetch import ImageFetcher
from app.intake import linked_image, served_names, session_spec
from app.key_file import KeyFile
from app.logs import about
from app.metrics import Metrics
from app.observers import Observers
from app.refusals import NotReady
from app.replies import Reply, geometry
from app.session_request import SessionRequest
from app.settings import Settings
from app.stores import Stores
from app.tokens import Keys, check_token, digest, new_token
from app.traces import start_traces
from app.wire import ForkRequest
from engine.api import Engine, EngineError, EngineState, ModelCard, Reducer, UnknownWorld, WorldLedger
from sessions.admission import Told
from sessions.errors import JournalCorrupt, SessionClosed, SessionError, UnknownSession
from sessions.facts import SessionOpened
from sessions.info import SessionInfo
from sessions.limits import Limits
from sessions.manager import SessionManager
from sessions.quotas import Quotas
from sessions.session import Session
from sessions.spec import SessionSpec

T = TypeVar("T")

log = logging.getLogger("worldline")


class Edge:
    """The settings, the engine, the sessions and the metrics of one server.

    `ready` is set once the model is loaded, or could not be: then `failure` says why.
    """

    def __init__(
        self, settings: Settings, engine: Engine, stores: Stores, reducers: Mapping[str, Reducer]
    ) -> None:
        self.settings = settings
        self.stores = stores
        self.engine = engine
        self.metrics = Metrics(engine)
        self.traces = start_traces(settings.trace_endpoint) if settings.trace_endpoint else None
        observer = Observers(self.metrics, self.traces) if self.traces else self.metrics
        file = KeyFile(settings.api_keys_file) if settings.api_keys_file else None
        self.keys = Keys((key.get_secret_value() for key in settings.api_keys), file)
        self.images = ImageFetcher(settings.image_fetch_max_bytes, settings.image_fetch_timeout_s)
        self.ready = asyncio.Event()
        self.draining = asyncio.Event()
        self.failure = ""
        self._tasks: set[asyncio.Task[Any]] = set()
        self.manager = SessionManager(
            engine,
            stores.journal,
            reducers,
            limits=_limits(settings),
            observer=observer,
            snapshots=stores.snapshots,
            recordings=stores.recordings,
            usage=stores.usage,
        )

    def require_host(self, connection: HTTPConnection) -> None:
        """Raise `HostRefused` where a page of another site may have led its visitor here; it knows no key."""
        if not self.keys.required:
            check_host(self.settings, connection.headers.get("host"))

    async def start(self) -> None:
        """Open the journal and load the model."""
        try:
            card = await self.manager.start()
        except SessionError as error:
            self._fail(message_of(error))
        except EngineError as error:
            self._fail(f"the model could not be loaded: {message_of(error)}")
        else:
            log.info("model %s is ready, room for %d sessions at once", card.name, self.room)
        finally:
            self.ready.set()

    def _fail(self, reason: str) -> None:
        self.failure = reason
        log.error("%s", reason)

    @property
    def room(self) -> int:
        """Sessions at once: what the model has room for, or fewer by the settings."""
        most = self.settings.max_sessions
        return self.card.capacity if most is None else min(most, self.card.capacity)

    async def drain(self) -> None:
        """Take no new sessions, end every stream, suspend every session, stop the engine; idempotent."""
        self.draining.set()
        await self.manager.stop("shutdown")
        if self.traces is not None:
            await self.traces.aclose()

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` beside its caller, who may end before it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @property
    def card(self) -> ModelCard:
        """The loaded model. Raises `NotReady` with the reason."""
        card = self.manager.card
        if card is None:
            raise NotReady(self.reason)
        return card

    def config_of(self, spec: SessionSpec) -> Reply:
        """The `config` of a session's streams, with the name that the model is listed under."""
        return geometry(spec, self.card, served_names(self.card, self.settings)[0])

    @property
    def reason(self) -> str:
        """Why no work is taken now; empty when it is."""
        status = self.engine.status()
        if self.draining.is_set():
            return "the server is shutting down"
        if self.failure:
            return self.failure
        if status.state is not EngineState.READY or self.manager.card is None:
            return status.reason or f"the engine is {EngineState.STARTING.value}"
        if self.manager.stuck:
            return "sessions that could not be closed hold all the room there is: DELETE them again"
        return ""

    async def create(
        self, request: SessionRequest, owner: str | None, told: Told | None = None
    ) -> tuple[Session, str]:
        """A new session and its token. Raises what `session_spec` and `SessionManager.create` raise.

        With `told`, it waits for room where there is none. Where its first frame has to be fetched, what
        `ImageFetcher.fetch` raises too.
        """
        token = new_token()
        spec = session_spec(request, self.card, self.settings, owner=owner, token_digest=digest(token))
        if (address := linked_image(request, self.settings)) is not None:
            image = await self.images.fetch(address, IMAGE_FIELD, self.settings.image_max_side)
            spec = replace(spec, image=image)
        session = await self.manager.create(spec, told)
        about(session_id=session.session_id)
        return session, token

    async def fork(self, source_id: str, request: ForkRequest, owner: str | None) -> tuple[Session, str]:
        """A fork of a session, and its token. Raises what `SessionManager.fork` raises."""
        token = new_token()
        source = await self.seen(source_id, owner)
        spec = replace(source.spec, session_id=request.session_id, owner=owner, token_digest=digest(token))
        return await self.manager.fork(source_id, spec, request.at_chunk), token

    async def seen(self, session_id: str, owner: str | None) -> SessionInfo:
        """Where the session stands, if the key may see it. Raises `UnknownSession`, `SessionClosed`."""
        info = await self.manager.info(session_id)
        if self.keys.required and info.spec.owner != owner:
            raise UnknownSession(session_id)
        return info

    async def world_of(self, session_id: str, owner: str | None) -> str:
        """The newest instance of the session, closed or not, if the key may see it; else `UnknownSession`."""
        life = await self.stores.journal.latest(session_id)
        if life is None or (self.keys.required and owner != await self._owner(life.world)):
            raise UnknownSession(session_id)
        return life.world

    async def ledger(self, world: str) -> WorldLedger | None:
        """What the engine holds of a world; None where that is put away. Raises `EngineError`."""
        try:
            return await self.engine.read_ledger(world)
        except UnknownWorld:
            return None

    async def _owner(self, world: str) -> str | None:
        [opening] = await self.stores.journal.read(world, limit=1)
        assert isinstance(opening.fact, SessionOpened), "a life begins with its opening"
        return opening.fact.spec.owner

    async def owned(self, session_id: str, owner: str | None) -> Session:
        """The session, awake, if the key may see it. Raises what `SessionManager.awake` does."""
        await self.seen(session_id, owner)
        return await self.manager.awake(session_id, owner=owner)

    async def may_close(self, session_id: str, owner: str | None) -> None:
        """Raise `UnknownSession` where the key may not; what is closed or unreadable may be closed."""
        try:
            await self.seen(session_id, owner)
        except SessionClosed:
            pass
        except JournalCorrupt:
            await self.world_of(session_id, owner)

    async def bound(
        self,
        session_id: str,
        token: str | None,
        owner: str | None,
        replay_after: int | None = None,
        told: Told | None = None,
    ) -> Session:
        """The session that a socket plays, for whoever shows its token. Raises `Unauthorized` too.

        With `told`, its world is there when this returns, after waiting for room where there is none. Where
        nothing is recorded, a suspended one computes the chunks behind `replay_after` again.
        """
        info = await self.seen(session_id, owner)
        about(session_id=session_id)
        check_token(token, info.spec.token_digest)
        again = replay_after if self.stores.recordings is None else None
        if told is None:
            return await self.manager.awake(session_id, again, owner)
        return await self.manager.ready(session_id, told, again, owner)


def edge_of(connection: HTTPConnection) -> Edge:
    """The edge that serves this request or socket."""
    return cast(Edge, cast(FastAPI, connection.app).state.edge)


def bearer(connection: HTTPConnection) -> str | None:
    """The key in `Authorization: Bearer KEY`, if there is one."""
    scheme, _, key = connection.headers.get("authorization", "").partition(" ")
    return key.strip() or None if scheme.lower() == "bearer" else None


def _limits(settings: Settings) -> Limits:
    default = Limits()
    return Limits(
        sessions=settings.max_sessions or default.sessions,
        pending_events=settings.pending_events,
        outbox_bytes=settings.outbox_max_bytes,
        reset_s=settings.close_timeout_s,
        close_s=settings.close_timeout_s,
        tape_bytes=settings.replay_max_bytes,
        grace_s=settings.resume_grace_s,
        suspends=settings.after_grace == "suspend",
        snapshot_every=settings.snapshot_every,
        waiting=settings.waiting_max,
        waiting_s=settings.waiting_timeout_s,
        unacked_chunks=settings.unacked_chunks,
        idle_s=settings.idle_timeout_s or None,
        lifetime_s=settings.session_lifetime_s or None,
        quotas=Quotas(
            settings.sessions_per_key,
            settings.events_per_second_per_key,
            settings.total_sessions_per_key,
            settings.total_events_per_key,
        ),
    )
