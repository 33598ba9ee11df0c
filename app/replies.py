"""What the server says: the session layer's outputs as messages of the wire."""

from __future__ import annotations

from typing import Any

from app.codec import codec_name
from app.errors import fault_of, field_of, hint_of, message_of
from app.fields import interaction_field, with_field
from app.packaging.packager import Package
from engine.api import ModelCard
from sessions.outputs import (
    ChunkOutput,
    Done,
    Evicted,
    Failed,
    InteractionQueued,
    InteractionRejected,
    QueuePosition,
    ResetDone,
    Resumed,
    Rewound,
    Warned,
)
from sessions.spec import SessionSpec

Reply = dict[str, Any]
Told = (
    Done
    | Evicted
    | Failed
    | InteractionQueued
    | InteractionRejected
    | QueuePosition
    | ResetDone
    | Resumed
    | Rewound
    | Warned
)  # every output but a chunk


def geometry(spec: SessionSpec, card: ModelCard, model: str) -> Reply:
    """The `config` of a stream: sizes in pixels, rate in frames per second, chunk lengths in frames."""
    return {
        "width": spec.width,
        "height": spec.height,
        "fps": spec.fps,
        "codec": codec_name(spec.format.media, spec.width, spec.height, spec.fps),
        "model": model,
        "first_chunk_frames": card.first_chunk_frames,
        "chunk_frames": card.chunk_frames,
        "frames_per_block": card.frames_per_block,
        "num_inference_steps": card.steps,
        "num_frames": spec.num_frames,
        "seed": spec.seed,
        "scene": spec.scene,
        "mode": spec.mode.value,
    }


def video_start(
    request_id: str, session_id: str, token: str | None, spec: SessionSpec, config: Reply
) -> Reply:
    """The first message of a stream."""
    return {
        "type": "video.start",
        "request_id": request_id,
        "format": spec.format.value,
        "config": config,
        "session_id": session_id,
        "token": token,
    }


def chunk_metadata(request_id: str, output: ChunkOutput, package: Package) -> Reply:
    """What precedes the binary frame of a chunk. Times are milliseconds, `media_time` is seconds."""
    times = output.times
    reply: Reply = {
        "type": "video.chunk_metadata",
        "request_id": request_id,
        "kind": "media",
        "num_frames": len(output.media.frames),
        "byte_length": len(package.payload),
        "generation_chunk_index": output.tick.chunk_index,
        "started_event_ids": output.started_event_ids,
        "active_event_ids": output.active_event_ids,
        "completed_event_ids": output.completed_event_ids,
        "transport_chunk_index": output.transport_index,
        "keyframe": output.keyframe,
        "media_time": output.media_time,
        "timing": {
            "queue_ms": round(times.queue_ms, 3),
            "denoise_ms": round(times.denoise_ms, 3),
            "decode_ms": round(times.decode_ms, 3),
            "encode_ms": round(times.encode_ms, 3),
            "commit_ms": None if output.previous_commit_ms is None else round(output.previous_commit_ms, 3),
        },
        "epoch": output.tick.epoch,
        "execution_id": output.tick.request_id,
    }
    if package.frame_sizes is not None:
        reply["frame_sizes"] = package.frame_sizes
    return reply


def told(request_id: str, output: Told) -> Reply:
    """Any output that has no media."""
    match output:
        case InteractionQueued(event_id):
            return {"type": "session.interaction.queued", "request_id": request_id, "event_id": event_id}
        case InteractionRejected(event_id, code, message, field, retryable, schema):
            place = None if field is None else interaction_field(field, schema)
            return rejection(event_id, code, with_field(message, field, place), place, retryable=retryable)
        case ResetDone(epoch, discarded):
            return {"type": "session.reset", "epoch": epoch, "discarded_event_ids": discarded}
        case Rewound(epoch, chunk_index):
            return {"type": "session.rewound", "epoch": epoch, "chunk_index": chunk_index}
        case Resumed(first, epoch, chunk_index):
            return {
                "type": "session.resumed",
                "request_id": request_id,
                "from_transport_chunk_index": first,
                "epoch": epoch,
                "chunk_index": chunk_index,
            }
        case Evicted():
            return {"type": "session.evicted"}
        case Warned(code, message):
            return warning(code, message)
        case QueuePosition(position, depth):
            return {"type": "session.queue", "position": position, "depth": depth}
        case Done(chunks, stopped):
            return {"type": "session.done", "request_id": request_id, "chunks": chunks, "stopped": stopped}
        case Failed(code, message, retryable):
            return error(code, message, retryable=retryable, request_id=request_id)


def rejection(
    event_id: str | None, code: str, message: str, field: str | None, *, retryable: bool = False
) -> Reply:
    """A bad interaction; the stream goes on."""
    return {
        "type": "session.interaction.rejected",
        "event_id": event_id,
        "code": code,
        "message": message,
        "field": field,
        "retryable": retryable,
    }


def warning(code: str, message: str, field: str | None = None) -> Reply:
    """Something the client should know; never fatal."""
    reply = {"type": "session.warning", "code": code, "message": message}
    return reply if field is None else {**reply, "field": field}


def error(
    code: str, message: str, *, retryable: bool, request_id: str | None = None, field: str | None = None
) -> Reply:
    """The fatal message: the socket closes after it."""
    reply: Reply = {"type": "error", "message": message, "code": code, "retryable": retryable}
    named = {"request_id": request_id, "field": field}
    return reply | {key: value for key, value in named.items() if value is not None}


def refused(cause: BaseException) -> Reply:
    """The fatal message for an exception."""
    row, hint = fault_of(cause), hint_of(cause)
    more = {"retry_after_seconds": hint.retry_after_s, "position": hint.position, "depth": hint.depth}
    return {
        **error(row.code, message_of(cause), retryable=row.retryable, field=field_of(cause)),
        **{key: value for key, value in more.items() if value is not None},
    }
