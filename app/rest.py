"""`/v1/sessions`."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.answers import ANY, MISSING, media, problems
from app.controls import event_of
from app.dependencies import EdgeNow, Owner, SessionIdInPath, TheInfo, TheSession
from app.edge import Edge
from app.event_request import EventRequest
from app.packaging.packager import Packager
from app.paths import CHUNK_HEADER
from app.replies import chunk_metadata
from app.sampling import check_sampling
from app.session_request import SessionRequest
from app.strict_route import StrictRoute
from app.views import (
    CachesView,
    CancelAnswer,
    Created,
    EventAnswer,
    ResetAnswer,
    SessionDetail,
    SessionPage,
    SessionView,
)
from app.wire import ResetRequest
from engine.api import CloseFailed, EngineError
from sessions.errors import SessionTombstoned
from sessions.events import Acceptance
from sessions.info import SessionInfo
from sessions.spec import Format
from sessions.state import SessionState

MEDIA_TYPES = {Format.M4S: "video/mp4", Format.ANNEXB: "video/h264", Format.JPEG: "application/octet-stream"}

router = APIRouter(prefix="/v1", route_class=StrictRoute, responses=ANY)


@router.post(
    "/sessions",
    tags=["sessions"],
    summary="Make a session",
    response_description="The session, and the token that plays it.",
    status_code=201,
    responses=problems(
        s401="No valid API key.",
        s404="Another model is served here.",
        s409="The id is in use.",
        s503="No room, or still loading: try again after `Retry-After`.",
    ),
)
async def create_session(edge: EdgeNow, owner: Owner, asked: SessionRequest, response: Response) -> Created:
    """Open a world from a prompt and a first frame (a scene, or an image as a data URL).

    Play it over the socket with `session.start {session_id, token}`; or, in stepped mode, by chunks here.
    """
    session, token = await edge.create(asked, owner)
    info = session.info()
    made = Created.of(info, token, edge.config_of(info.spec), check_sampling(asked, edge.card))
    response.headers["Location"] = made.links.self
    return made


@router.get(
    "/sessions",
    tags=["sessions"],
    summary="List sessions",
    response_description="A page of sessions.",
    responses=problems(s401="No valid API key."),
)
async def list_sessions(
    edge: EdgeNow,
    owner: Owner,
    status: Annotated[SessionState | None, Query(description="Only those in this state.")] = None,
    after: Annotated[str | None, Query(max_length=64, description="`next` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Sessions on a page.")] = 100,
) -> SessionPage:
    """In the order of their ids, a page at a time."""
    seen = await edge.manager.list(state=status, owner=owner, after=after, limit=limit + 1)
    more = len(seen) > limit
    page = [SessionView.of(info, edge.manager.pruned(info.world)) for info in seen[:limit]]
    return SessionPage(sessions=page, next=page[-1].session_id if more else None)


@router.get(
    "/sessions/{session_id}",
    tags=["sessions"],
    summary="One session",
    response_description="Where it stands.",
    responses=problems(**MISSING),
)
async def get_session(edge: EdgeNow, info: TheInfo) -> SessionDetail:
    """Where it stands, and what its caches hold, after the chunk in flight; a suspended session sleeps on."""
    return SessionDetail.of_session(info, edge.manager.pruned(info.world), await _caches(edge, info))


async def _caches(edge: Edge, info: SessionInfo) -> CachesView | None:
    try:
        return CachesView.of(await edge.ledger(info.world))
    except EngineError:
        return None


@router.post(
    "/sessions/{session_id}/events",
    tags=["sessions"],
    summary="Submit an event",
    response_description="Accepted: it takes effect at the next chunk.",
    status_code=202,
    responses={
        200: {"model": EventAnswer, "description": "A duplicate: nothing changes."},
        **problems(
            **MISSING,
            s409="The id is stale, or taken by another payload.",
            s422="The event or its control is wrong: `field` names it.",
            s429="Too many events are pending.",
        ),
    },
)
async def submit_event(
    edge: EdgeNow, session: TheSession, asked: EventRequest, response: Response
) -> EventAnswer:
    """A prompt, controls, or both. It takes effect at the next chunk, and is durable once answered."""
    acceptance = await session.submit(event_of(asked, edge.card, edge.settings))
    if acceptance is Acceptance.DUPLICATE:
        response.status_code = 200
    return EventAnswer(event_id=asked.event_id, status=acceptance.value)


@router.post(
    "/sessions/{session_id}/chunks",
    tags=["sessions"],
    summary="Run one chunk",
    response_class=Response,
    responses={
        200: {
            **media(
                "The chunk's media in the session's format (`m4s` with its init segment).",
                *MEDIA_TYPES.values(),
            ),
            "headers": {
                CHUNK_HEADER: {
                    "description": "JSON: the fields of `video.chunk_metadata`.",
                    "schema": {"type": "string"},
                }
            },
        },
        **problems(
            **MISSING,
            s409="Not a stepped session, or it is busy, failed, at its end, or the chunk was cancelled.",
            s503="The engine is restarting.",
        ),
    },
)
async def run_chunk(session: TheSession) -> Response:
    """One chunk with all pending events, in stepped mode and while no socket plays the session."""
    output = await session.run_chunk()
    form = session.info().spec.format
    package = Packager(form.value).package(output.media)
    metadata = chunk_metadata(output.tick.request_id, output, package)
    header = {CHUNK_HEADER: json.dumps(metadata, separators=(",", ":"))}
    return Response(package.payload, media_type=MEDIA_TYPES[form], headers=header)


@router.post(
    "/sessions/{session_id}/cancel",
    tags=["sessions"],
    summary="Cancel the chunk in flight",
    response_description="Whether there was one.",
    responses=problems(**MISSING),
)
async def cancel_chunk(session: TheSession) -> CancelAnswer:
    """Roll it back; its events are pending again, and a stream goes on."""
    return CancelAnswer(cancelled=await session.cancel())


@router.post(
    "/sessions/{session_id}/reset",
    tags=["sessions"],
    summary="Back to the first frame",
    response_description="The epoch that begins.",
    responses=problems(
        **MISSING, s409="The session failed for good.", s504="The engine did not answer in time."
    ),
)
async def reset_session(session: TheSession, asked: ResetRequest | None = None) -> ResetAnswer:
    """Drop prompt, controls and pending events, and start over from the seed.

    The next chunk waits for a prompt; with `resume`, it starts with the opening prompt at once.
    """
    done = await session.reset(asked.resume if asked else False)
    return ResetAnswer(epoch=done.epoch, discarded_event_ids=list(done.discarded_event_ids))


@router.delete(
    "/sessions/{session_id}",
    tags=["sessions"],
    summary="Close a session",
    response_description="Closed, now or before.",
    status_code=204,
    responses=problems(
        s401="No valid API key.",
        s404="No such session.",
        s500="`cleanup_failed`: its memory could not be released. DELETE again retries.",
    ),
)
async def close_session(edge: EdgeNow, owner: Owner, session_id: SessionIdInPath) -> Response:
    """Idempotent. After the chunk in flight, its memory is released."""
    await edge.may_close(session_id, owner)
    try:
        await edge.manager.close(session_id, "deleted")
    except SessionTombstoned as error:  # a conflict for whoever meets it later; here it is our failure
        raise CloseFailed(error.message) from error
    return Response(status_code=204)
