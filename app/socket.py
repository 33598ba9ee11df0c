"""`WS /v1/realtime/video`: from the handshake to the close."""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import urlsplit

from fastapi import WebSocket
from starlette.websockets import WebSocketDisconnect

from app.channel import Channel
from app.edge import Edge, bearer, edge_of
from app.errors import MAPPED, close_code, fault_of
from app.logs import about
from app.refusals import InvalidField, MessageTooLarge, OriginRefused, StartTimeout, shortened
from app.replies import geometry, refused, told, video_start, warning
from app.settings import Settings
from app.stream import Stream
from app.watch import Watch
from app.wire import Attach, Opening, Resume, Start, parse_message
from sessions.errors import SessionError, TakenOver
from sessions.outbox import Outbox
from sessions.outputs import Done, Failed, Terminal
from sessions.session import Session

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
    match opening:
        case Start(token=None):
            session, token = await edge.create(opening, owner)
            outbox = await _started(edge, session)
            terminal = await _play(edge, channel, session, outbox, token, opening)
            await _end(edge, session, terminal)
        case Start():
            session = await _bound(edge, opening, owner)
            terminal = await _play(edge, channel, session, session.play(), opening.token, opening)
        case Resume(session_id=session_id, token=token, last_transport_chunk_index=last):
            session = await edge.bound(session_id, token, owner, last)
            terminal = await _play(edge, channel, session, await session.resume(last), token)
        case Attach(session_id=session_id, token=token):
            session = await edge.bound(session_id, token, owner)
            terminal = await _watch(edge, channel, session)
    await channel.finish(_code(edge, terminal), told(channel.request_id, terminal))


async def _end(edge: Edge, session: Session, terminal: Terminal) -> None:
    """A socket's own session ends with its stream; unless another socket has it now, or a server to come."""
    if edge.draining.is_set() or (isinstance(terminal, Failed) and terminal.code == TakenOver.code):
        return
    closing = edge.spawn(_close(edge, session, _outcome(terminal)))
    await asyncio.wait({closing}, timeout=CLOSE_FIRST_S)


async def _started(edge: Edge, session: Session) -> Outbox:
    """The stream of a new session, which is closed where none can start."""
    try:
        return session.play()
    except SessionError as error:
        await _close(edge, session, fault_of(error).code)
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


async def _bound(edge: Edge, start: Start, owner: str | None) -> Session:
    """The session that REST made. Fields may be repeated, but not changed."""
    if start.session_id is None:
        raise InvalidField("session_id", "required with `token`; got nothing")
    session = await edge.bound(start.session_id, start.token, owner)
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
        if start is not None and start.num_inference_steps not in (None, edge.card.steps):
            asked, has = start.num_inference_steps, edge.card.steps
            message = f"this model takes {has} steps; {asked} were asked for"
            await channel.send(warning("steps_fixed", message, "num_inference_steps"))
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
    config = geometry(spec, edge.card, edge.model_name)
    await channel.send(video_start(channel.request_id, session.session_id, token, spec, config))


async def _close(edge: Edge, session: Session, reason: str) -> None:
    try:
        await edge.manager.close(session.session_id, reason)
    except SessionError as error:
        log.warning("session %s could not be closed: %s", session.session_id, error)


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
    if urlsplit(origin).netloc.lower() != websocket.headers.get("host", "").lower():
        raise OriginRefused(f"pages of {shortened(origin)} may not connect: set WORLDLINE_ALLOWED_ORIGINS")
