"""What REST answers: the shapes that OpenAPI shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from pydantic import BaseModel, Field

from app.paths import SOCKET_PATH
from app.replies import Reply
from app.sampling import Notice
from engine.api import WorldLedger
from sessions.fact_codec import as_json, kind_of
from sessions.facts import SessionOpened
from sessions.info import SessionInfo
from sessions.journal import Record
from sessions.snapshots import Pruned


class Links(BaseModel):
    """Where to go on."""

    self: str = Field(description="The session: GET looks, DELETE closes.")
    events: str = Field(description="POST events here.")
    chunks: str = Field(description="POST asks for a chunk, in stepped mode.")
    stream: str = Field(description="Where the socket is.")

    @classmethod
    def of(cls, session_id: str) -> Self:
        """The links of one session."""
        path = f"/v1/sessions/{session_id}"
        return cls(self=path, events=f"{path}/events", chunks=f"{path}/chunks", stream=SOCKET_PATH)


class NoticeView(BaseModel):
    """Something in a request that is not followed, and changes nothing."""

    code: str = Field(description="Its stable name.", examples=["steps_fixed"])
    message: str = Field(description="What came, and what is so instead.")
    field: str = Field(description="Path of the field.", examples=["num_inference_steps"])

    @classmethod
    def of(cls, notice: Notice) -> Self:
        """The view of a notice."""
        return cls(code=notice.code, message=notice.message, field=notice.field)


class Created(BaseModel):
    """A new session. The token is told this once: it binds a socket to the session."""

    session_id: str = Field(description="Its name.")
    token: str = Field(description="What `session.start`, `session.resume` and `session.attach` show for it.")
    status: str = Field(description="active")
    config: Reply = Field(description="Sizes, rate and chunk lengths, as in `video.start`.")
    warnings: list[NoticeView] = Field(description="What was not followed, and changes nothing.")
    links: Links = Field(description="Where to go on.")

    @classmethod
    def of(cls, info: SessionInfo, token: str, config: Reply, notices: Sequence[Notice] = ()) -> Self:
        """The view of a new session."""
        return cls(
            session_id=info.session_id,
            token=token,
            status=info.state.value,
            config=config,
            warnings=[NoticeView.of(notice) for notice in notices],
            links=Links.of(info.session_id),
        )


class PrunedView(BaseModel):
    """What the server let go of for want of room on its disk."""

    kind: str = Field(description="snapshot (it takes longer to come back) or recording (video is missing)")
    what: str = Field(description="The file's name.")
    bytes: int = Field(description="Its size.")
    reason: str = Field(description="Which limit, or error of the disk, it went for.")


class SessionView(BaseModel):
    """One session."""

    session_id: str = Field(description="Its name.")
    status: str = Field(description="active, failed, suspended, closing or cleanup_failed")
    reason: str = Field(description="Why it failed, or could not be released; else empty.")
    mode: str = Field(description="continuous or stepped")
    format: str = Field(description="m4s, annexb or jpeg")
    opened_at: float = Field(description="Unix seconds.")
    epoch: int = Field(description="Rises with every reset and rewind.")
    chunk_index: int = Field(description="The next chunk: so many are committed since the last reset.")
    event_floor: int = Field(description="Ids below it that were never seen are stale.")
    pending_event_ids: list[int] = Field(description="Events that wait for the next chunk.")
    streaming: bool = Field(description="Whether a socket plays it.")
    waiting: bool = Field(description="Whether it waits for a prompt after a reset.")
    timing: dict[str, float] | None = Field(description="Milliseconds of the last committed chunk, by stage.")
    pruned: list[PrunedView] = Field(
        description="What was taken from it for want of room since the server started, the newest last."
    )
    links: Links = Field(description="Where to go on.")

    @classmethod
    def of(cls, info: SessionInfo, pruned: Sequence[Pruned] = ()) -> Self:
        """The view of a session."""
        return cls(
            session_id=info.session_id,
            status=info.state.value,
            reason=info.reason,
            mode=info.spec.mode.value,
            format=info.spec.format.value,
            opened_at=info.opened_at,
            epoch=info.epoch,
            chunk_index=info.chunk_index,
            event_floor=info.event_floor,
            pending_event_ids=list(info.pending_event_ids),
            streaming=info.streaming,
            waiting=info.waiting,
            timing=_timing(info),
            pruned=[
                PrunedView(kind=one.kind.value, what=one.what, bytes=one.bytes, reason=one.reason)
                for one in pruned
            ],
            links=Links.of(info.session_id),
        )


class CachesView(BaseModel):
    """What the engine's memory holds for a session; nothing while its world is put away."""

    present: bool = Field(description="Whether the engine has its world.")
    live_bytes: int = Field(description="Published and not released.")
    balanced: bool | None = Field(
        description="Whether all facts of the device fold to its live state and allocators; null if unknown."
    )

    @classmethod
    def of(cls, ledger: WorldLedger | None) -> Self:
        """What a world's ledger comes to, or none's."""
        if ledger is None:
            return cls(present=False, live_bytes=0, balanced=None)
        return cls(present=True, live_bytes=ledger.live_bytes, balanced=ledger.balanced)


class SessionDetail(SessionView):
    """One session, and what its caches hold."""

    caches: CachesView | None = Field(description="Null while the engine can't tell.")

    @classmethod
    def of_session(cls, info: SessionInfo, pruned: Sequence[Pruned], caches: CachesView | None) -> Self:
        """The view of a session with its caches."""
        return cls(**SessionView.of(info, pruned).model_dump(), caches=caches)


class SessionPage(BaseModel):
    """Sessions in the order of their ids; ask again with `after=next` while there is one."""

    sessions: list[SessionView] = Field(description="Those of this page.")
    next: str | None = Field(description="What `after` takes for the next page; null on the last.")


class EventAnswer(BaseModel):
    """How an event was taken."""

    event_id: int = Field(description="The event's.")
    status: str = Field(description="accepted, or duplicate: the same id and payload came before.")


class ResetAnswer(BaseModel):
    """The session is at its first frame again."""

    epoch: int = Field(description="The one that begins.")
    discarded_event_ids: list[str] = Field(description="Pending events that were dropped.")


class RewindAnswer(BaseModel):
    """The session is at an earlier chunk again."""

    epoch: int = Field(description="The one that begins.")
    chunk_index: int = Field(description="The next chunk.")


class FactView(BaseModel):
    """One fact of a session's journal."""

    sequence: int = Field(description="Its place in the journal, from 0.")
    at: float = Field(description="Unix seconds.")
    kind: str = Field(description="opened, event, begun, committed, failed, reset, rewound, ...")
    content: dict[str, Any] = Field(description="What it says, by kind; neither images nor secrets.")

    @classmethod
    def of(cls, record: Record) -> Self:
        """The view of a fact. Neither images nor digests of secrets are shown."""
        content = as_json(record.fact)
        if isinstance(record.fact, SessionOpened):
            content["spec"].pop("token_digest")
            content["spec"].pop("owner")
        kind = kind_of(record.fact)
        return cls(sequence=record.sequence, at=record.at, kind=kind, content=content)


class JournalPage(BaseModel):
    """Facts in their order; ask again with `after=next` while there is one."""

    facts: list[FactView] = Field(description="Those of this page, in their order.")
    next: int | None = Field(description="What `after` takes for the next page; null on the last.")


class LedgerView(CachesView):
    """What the engine holds for a session now, and the facts of that; nothing while its world is put away."""

    facts: list[dict[str, str | int]] = Field(
        description="In their order; `fact` is opened, build_began, published, leased, released, ..."
    )

    @classmethod
    def of(cls, ledger: WorldLedger | None) -> Self:
        """The view of a world's ledger, or of none."""
        facts = [] if ledger is None else [dict(fact) for fact in ledger.facts]
        return cls(**CachesView.of(ledger).model_dump(), facts=facts)


class CancelAnswer(BaseModel):
    """Whether a chunk was rolled back; false where none ran or its pixels had left."""

    cancelled: bool = Field(description="Whether there was one to roll back.")


def _timing(info: SessionInfo) -> dict[str, Any] | None:
    times = info.last_chunk
    if times is None:
        return None
    stages = times.stages
    measured = {
        "queue_ms": stages.queue_ms,
        "denoise_ms": stages.denoise_ms,
        "decode_ms": stages.decode_ms,
        "encode_ms": stages.encode_ms,
        "commit_ms": times.commit_ms,
        "total_ms": times.total_ms,
    }
    return {name: round(value, 3) for name, value in measured.items()}
