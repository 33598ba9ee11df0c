"""What REST answers: the shapes that OpenAPI shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self
from urllib.parse import quote

from pydantic import BaseModel, Field

from app.paths import SOCKET_PATH
from app.replies import Reply
from engine.api import ModelCard, Scene, WorldLedger
from sessions.fact_codec import as_json, kind_of
from sessions.facts import SessionOpened
from sessions.info import SessionInfo
from sessions.journal import Record
from sessions.snapshots import Pruned


class Links(BaseModel):
    """Where to go on."""

    self: str
    events: str
    chunks: str
    stream: str

    @classmethod
    def of(cls, session_id: str) -> Self:
        """The links of one session."""
        path = f"/v1/sessions/{session_id}"
        return cls(self=path, events=f"{path}/events", chunks=f"{path}/chunks", stream=SOCKET_PATH)


class Created(BaseModel):
    """A new session. The token is told this once: it binds a socket to the session."""

    session_id: str
    token: str
    status: str
    config: Reply = Field(description="Sizes, rate and chunk lengths, as in `video.start`.")
    links: Links


class PrunedView(BaseModel):
    """What the server let go of for want of room on its disk."""

    kind: str = Field(description="snapshot (it takes longer to come back) or recording (video is missing)")
    what: str
    bytes: int
    reason: str


class SessionView(BaseModel):
    """One session."""

    session_id: str
    status: str = Field(description="active, failed, suspended, closing or cleanup_failed")
    reason: str = Field(description="Why it failed, or could not be released; else empty.")
    mode: str
    format: str
    opened_at: float = Field(description="Unix seconds.")
    epoch: int
    chunk_index: int = Field(description="The next chunk: so many are committed since the last reset.")
    event_floor: int = Field(description="Ids below it that were never seen are stale.")
    pending_event_ids: list[int]
    streaming: bool = Field(description="Whether a socket plays it.")
    waiting: bool = Field(description="Whether it waits for a prompt after a reset.")
    timing: dict[str, float] | None = Field(description="Milliseconds of the last committed chunk, by stage.")
    pruned: list[PrunedView] = Field(
        description="What was taken from it for want of room since the server started, the newest last."
    )
    links: Links

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


class SessionPage(BaseModel):
    """Sessions in the order of their ids; ask again with `after=next` while there is one."""

    sessions: list[SessionView]
    next: str | None


class EventAnswer(BaseModel):
    """How an event was taken."""

    event_id: int
    status: str = Field(description="accepted, or duplicate: the same id and payload came before.")


class ResetAnswer(BaseModel):
    """The session is at its first frame again."""

    epoch: int
    discarded_event_ids: list[str] = Field(description="Pending events that were dropped.")


class RewindAnswer(BaseModel):
    """The session is at an earlier chunk again."""

    epoch: int
    chunk_index: int = Field(description="The next chunk.")


class FactView(BaseModel):
    """One fact of a session's journal."""

    sequence: int
    at: float = Field(description="Unix seconds.")
    kind: str = Field(description="opened, event, begun, committed, failed, reset, rewound, ...")
    content: dict[str, Any]

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

    facts: list[FactView]
    next: int | None


class LedgerView(BaseModel):
    """What the engine holds for a session now; nothing while its world is put away."""

    present: bool = Field(description="Whether the engine has its world.")
    live_bytes: int = Field(description="Published and not released.")
    balanced: bool | None = Field(
        description="Whether all facts of the device fold to its live state and allocators; null if unknown."
    )
    facts: list[dict[str, str | int]] = Field(
        description="In their order; `fact` is opened, build_began, published, leased, released, ..."
    )

    @classmethod
    def of(cls, ledger: WorldLedger | None) -> Self:
        """The view of a world's ledger, or of none."""
        if ledger is None:
            return cls(present=False, live_bytes=0, balanced=None, facts=[])
        facts = [dict(fact) for fact in ledger.facts]
        return cls(present=True, live_bytes=ledger.live_bytes, balanced=ledger.balanced, facts=facts)


class CancelAnswer(BaseModel):
    """Whether a chunk was rolled back; false where none ran or its pixels had left."""

    cancelled: bool


class SceneView(BaseModel):
    """A built-in first frame."""

    name: str
    title: str
    prompt: str
    image: str | None = Field(description="Where its picture is, if it has one.")

    @classmethod
    def of(cls, scene: Scene) -> Self:
        """The view of a scene."""
        image = None if scene.image is None else f"/v1/scenes/{quote(scene.name, safe='')}/image"
        return cls(name=scene.name, title=scene.title, prompt=scene.prompt, image=image)


class ModelView(BaseModel):
    """The served model: sizes in pixels, rate in frames per second, lengths in frames."""

    id: str
    object: str = "model"
    aliases: list[str]
    description: str
    width: int
    height: int
    fps: int
    size_multiple: int
    max_pixels: int
    first_chunk_frames: int
    chunk_frames: int
    frames_per_block: int
    num_inference_steps: int
    capacity: int
    scenes: list[SceneView]
    control_schemas: dict[str, list[str]]

    @classmethod
    def of(cls, card: ModelCard, names: tuple[str, ...]) -> Self:
        """The view of a model card."""
        plain = {name: getattr(card, name) for name in _PLAIN}
        return cls(
            id=names[0],
            aliases=list(names[1:]),
            num_inference_steps=card.steps,
            scenes=[SceneView.of(scene) for scene in card.scenes],
            control_schemas={track: list(schemas) for track, schemas in card.control_schemas.items()},
            **plain,
        )


class ModelList(BaseModel):
    """The models that are served: one."""

    object: str = "list"
    data: list[ModelView]


_PLAIN = (
    "description",
    "width",
    "height",
    "fps",
    "size_multiple",
    "max_pixels",
    "first_chunk_frames",
    "chunk_frames",
    "frames_per_block",
    "capacity",
)


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
