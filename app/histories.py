"""`/v1/sessions/{id}`: what has been, and going back to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from app.answers import ANY, MISSING, UNKNOWN, media, problems
from app.dependencies import EdgeNow, Owner, SessionIdInPath, TheInfo, TheSession, TheWorld
from app.packaging.movie import movie
from app.refusals import NothingRecorded
from app.strict_route import StrictRoute
from app.views import Created, FactView, JournalPage, LedgerView, RewindAnswer
from app.wire import ForkRequest, RewindRequest
from engine.api import EncodedChunk
from sessions.recordings import RecordingStore

router = APIRouter(
    prefix="/v1/sessions/{session_id}",
    route_class=StrictRoute,
    responses=ANY,
    tags=["histories"],
)


@router.post(
    "/rewind",
    summary="Back to an earlier chunk",
    response_description="Where it is again.",
    responses=problems(**MISSING, s409="It has no such chunk, or failed.", s504="The engine is too slow."),
)
async def rewind_session(session: TheSession, asked: RewindRequest) -> RewindAnswer:
    """The world, prompt and controls are as they were before chunk `to_chunk`; events keep their ids."""
    done = await session.rewind(asked.to_chunk)
    return RewindAnswer(epoch=done.epoch, chunk_index=done.chunk_index)


@router.post(
    "/fork",
    summary="Another session with the same past",
    response_description="The new session, and the token that plays it.",
    status_code=201,
    responses=problems(**MISSING, s409="It has no such chunk, or the id is in use.", s503="No room."),
)
async def fork_session(
    edge: EdgeNow, owner: Owner, info: TheInfo, asked: ForkRequest, response: Response
) -> Created:
    """A new session that goes on behind the first `at_chunk` chunks of this one, which goes on by itself."""
    session, token = await edge.fork(info.session_id, asked, owner)
    forked = session.info()
    made = Created.of(forked, token, edge.config_of(forked.spec))
    response.headers["Location"] = made.links.self
    return made


@router.get(
    "/journal", summary="Its facts", response_description="A page of facts.", responses=problems(**UNKNOWN)
)
async def read_journal(
    edge: EdgeNow,
    world: TheWorld,
    after: Annotated[int, Query(ge=-1, le=2**63 - 1, description="`next` of the page before.")] = -1,
    limit: Annotated[int, Query(ge=1, le=1000, description="Facts on a page.")] = 100,
) -> JournalPage:
    """All that the session is follows from these, in their order; also once it is closed."""
    records = await edge.stores.journal.read(world, after, limit + 1)
    page = records[:limit]
    more = len(records) > limit
    return JournalPage(
        facts=[FactView.of(record) for record in page], next=page[-1].sequence if more else None
    )


@router.get(
    "/ledger",
    summary="What its caches hold",
    response_description="The facts, and what they come to.",
    responses=problems(**MISSING, s503="The engine is not ready."),
)
async def read_ledger(edge: EdgeNow, info: TheInfo) -> LedgerView:
    """The facts that its memory follows from, as the engine tells them after the job in flight."""
    return LedgerView.of(await edge.ledger(info.world))


@router.get(
    "/video.mp4",
    summary="The whole recording",
    response_class=StreamingResponse,
    responses={
        200: media("All that was shown and is kept, as it was encoded.", "video/mp4"),
        **problems(**UNKNOWN),
    },
)
async def read_video(edge: EdgeNow, session_id: SessionIdInPath, world: TheWorld) -> StreamingResponse:
    """Chunk after chunk as they were shown, across resets and rewinds; also once it is closed."""
    recordings = edge.stores.recordings
    pieces = None if recordings is None else movie(_media(recordings, world))
    first = None if pieces is None else await anext(pieces, None)
    if pieces is None or first is None:
        raise NothingRecorded(f"of session {session_id!r} nothing is recorded")

    async def body() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    return StreamingResponse(body(), media_type="video/mp4")


async def _media(recordings: RecordingStore, world: str) -> AsyncIterator[EncodedChunk]:
    async for chunk in recordings.chunks(world):
        yield chunk.media
