"""`WS /v1/realtime/video`: from the handshake to the close."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from fastapi import WebSocket
from starlette.websockets import WebSocketDisconnect

from app.channel import Channel
from app.edge import Edge, bearer, edge_of
from app.errors import MAPPED, close_code, fault_of
from app.lobby import LeftLine, Lobby
from app.logs import about
from app.refusals import InvalidField, MessageTooLarge, OriginRefused, StartTimeout, shortened
from app.replies import refused, told, video_start, warning
from app.sampling import check_sampling
from app.settings import Settings
from app.stream import Stream
from app.watch import Watch
from app.wire import Attach, Opening, Resume, Start, parse_message
from sessions.admission import Told
from sessions.errors import SessionError, TakenOver
from sessions.outbox import Outbox
from sessions.outputs import Done, Failed, Terminal
from sessions.session import Session
from sessions.state import SessionState

T = TypeVar("T")

log = logging.getLogger("worldline")

CLOSE_FIRST_S = 2.0  # how long the terminal message waits for the session's close


async def realtime_video(websocket: WebSocket) -> None:
    """Serve one socket, which ends with exactly one terminal message and a close."""
    edge = edge_of(websocket)
    await websocket.accept()
    channel = Channel(websocket, edge.settings.last_word_timeout_s)
    about(request_id=channel.request_id)
    try:
        _check_origin(websocket, edge.settings)
        edge.require_host(websocket)
        await _converse(edge, channel, bearer(websocket))
    except WebSocketDisconnect:
        log.debug("the client left")
    except MAPPED as error:
        await channel.finish(fault_of(error).close, refused(error))
    except Exception as error:
        log.exception("a socket failed")
        await channel.finish(fault_of(error).close, refused(error))
    finally:
        await channel.finish(1011)
        edge.metrics.socket_closed(channel.close_code or 1011)


async def _converse(edge: Edge, channel: Channel, key: str | None) -> None:
    opening = await _opening(edge, channel)
    owner = edge.keys.owner(opening.api_key or key)
    try:
        terminal = await _admitted(edge, channel, opening, owner)
    except LeftLine:
        terminal = Done(0, stopped=True)
    await channel.finish(_code(edge, terminal), told(channel.request_id, terminal))


async def _admitted(edge: Edge, channel: Channel, opening: Opening, owner: str | None) -> Terminal:
    """Play or watch to the end, after waiting for room where there is none. Raises `LeftLine`."""
    match opening:
        case Start(token=None):
            session, token = await _room(edge, channel, opening, partial(edge.create, opening, owner))
            about(session_id=session.session_id)  # it was made in a task of its own
            outbox = await _started(edge, session)
            try:
                terminal = await _play(edge, channel, session, outbox, token, opening)
            except Exception:
                if outbox.terminal is not None:  # the stream had ended, unheard
                    await _end(edge, session, outbox.terminal)
                raise
            await _end(edge, session, terminal)
            return terminal
        case Start():
            session = await _room(edge, channel, opening, partial(_bound, edge, opening, owner))
            about(session_id=session.session_id)
            return await _play(edge, channel, session, session.play(), opening.token, opening)
        case Resume(session_id=session_id, token=token, last_transport_chunk_index=last):
            bind = partial(edge.bound, session_id, token, owner, last)
            session = await _room(edge, channel, opening, bind)
            about(session_id=session.session_id)
            return await _play(edge, channel, session, await session.resume(last), token)
        case Attach(session_id=session_id, token=token):
            return await _watch(edge, channel, await edge.bound(session_id, token, owner))


async def _room(
    edge: Edge,
    channel: Channel,
    opening: Start | Resume,
    enter: Callable[[Told | None], Coroutine[Any, Any, T]],
) -> T:
    """What `enter` answers, after waiting for room unless the client does not want to. Raises `LeftLine`."""
    if not opening.wait:
        return await enter(None)
    try:
        return await Lobby(edge, channel).wait(enter)
    except LeftLine as left:
        theirs = opening.session_id if opening.token is not None else None  # who waits has shown its token
        if left.closes and theirs is not None:
            await _close(edge, theirs, "client")
        raise


async def _end(edge: Edge, session: Session, terminal: Terminal) -> None:
    """A socket's own session ends with its stream; unless another socket has it now, or a server to come, or
    it can go on once what stopped it has passed (no room, a full disk, an engine that restarts).
    """
    if edge.draining.is_set():
        return
    if isinstance(terminal, Failed):
        passing = terminal.retryable and session.info().state is not SessionState.FAILED
        if passing or terminal.code == TakenOver.code:
            return
    closing = edge.spawn(_close(edge, session.session_id, _outcome(terminal)))
    await asyncio.wait({closing}, timeout=CLOSE_FIRST_S)


async def _started(edge: Edge, session: Session) -> Outbox:
    """The stream of a new session, which is closed where none can start."""
    try:
        return session.play()
    except SessionError as error:
        await _close(edge, session.session_id, fault_of(error).code)
        raise


async def _opening(edge: Edge, channel: Channel) -> Opening:
    settings = edge.settings
    try:
        async with asyncio.timeout(settings.start_timeout_s):
            text = await channel.receive()
    except TimeoutError:
        raise StartTimeout(f"no `session.start` within {settings.start_timeout_s:g} seconds") from None
    size = len(text.encode())
    if size > settings.start_max_bytes:
        raise MessageTooLarge(f"`session.start` has at most {settings.start_max_bytes} bytes; got {size}")
    message = parse_message(text)
    if not isinstance(message, Opening):
        first = "session.start, session.resume or session.attach"
        raise InvalidField("type", f"must be {first} first; got {shortened(message.type)}")
    return message


async def _bound(edge: Edge, start: Start, owner: str | None, told: Told | None) -> Session:
    """The session that REST made. Fields may be repeated, but not changed."""
    if start.session_id is None:
        raise InvalidField("session_id", "required with `token`; got nothing")
    check_sampling(start, edge.card)
    session = await edge.bound(start.session_id, start.token, owner, told=told)
    spec = session.info().spec
    for field in start.model_fields_set & {"prompt", "scene", "width", "height", "fps", "seed", "num_frames"}:
        asked, has = getattr(start, field), getattr(spec, field)
        if asked is not None and asked != has:
            raise InvalidField(
                field, f"must be the session's, {shortened(has)}, or left out; got {shortened(asked)}"
            )
    return session


async def _play(
    edge: Edge,
    channel: Channel,
    session: Session,
    outbox: Outbox,
    token: str | None,
    start: Start | None = None,
) -> Terminal:
    """Play to the terminal message. Who leaves before may come back within the grace period."""
    try:
        await _introduce(edge, channel, session, token)
        for notice in () if start is None else check_sampling(start, edge.card):
            await channel.send(warning(notice.code, notice.message, notice.field))
        return await Stream(edge, channel, session).run(outbox)
    finally:
        session.leave(outbox)


async def _watch(edge: Edge, channel: Channel, session: Session) -> Terminal:
    outbox = session.audience.attach()
    try:
        await _introduce(edge, channel, session, None)
        return await Watch(edge, channel, session).run(outbox)
    finally:
        session.audience.detach(outbox)


async def _introduce(edge: Edge, channel: Channel, session: Session, token: str | None) -> None:
    spec = session.info().spec
    start = video_start(channel.request_id, session.session_id, token, spec, edge.config_of(spec))
    await channel.send(start)


async def _close(edge: Edge, session_id: str, reason: str) -> None:
    try:
        await edge.manager.close(session_id, reason)
    except SessionError as error:
        log.warning("session %s could not be closed: %s", session_id, error)


def _outcome(terminal: Terminal) -> str:
    if isinstance(terminal, Failed):
        return terminal.code
    return "stopped" if terminal.stopped else "finished"


def _code(edge: Edge, terminal: Terminal) -> int:
    if edge.draining.is_set():
        return 1001
    return 1000 if isinstance(terminal, Done) else close_code(terminal.code)


def _check_origin(websocket: WebSocket, settings: Settings) -> None:
    """A page of another site may not use the visitor's access: its origin must be ours, or allowed."""
    origin = websocket.headers.get("origin")
    if origin is None or origin in settings.allowed_origins:
        return
    host = websocket.headers.get("host", "").lower()
    if origin.lower() not in (f"http://{host}", f"https://{host}"):
        raise OriginRefused(f"pages of {shortened(origin)} may not connect: set WORLDLINE_ALLOWED_ORIGINS")
