"""The OpenAPI description: what FastAPI finds out, with our errors in place of its own."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from app.problems import Problem

DESCRIPTION = """\
Sessions of generated worlds that a client plays: it sends camera actions and prompts, and receives video.

The routes below manage sessions, and step through them chunk by chunk. Errors are `application/problem+json`
with a `code`, whether the request is `retryable`, and the `field` in question.

To play, open a WebSocket at `/v1/realtime/video` and send JSON text. The first message is `session.start`,
with any field of *Make a session*, or with the `session_id` and `token` of a session made here:

    {"type": "session.start", "prompt": "a meadow"}

After it, at any time, `session.interaction` changes the prompt, the camera, or both. This holds the key `w`,
to walk forward:

    {"type": "session.interaction", "interaction": {"event_id": "walk", "event": {"multi_modal_data":
      {"camera": {"schema": "lingbot.camera_actions.v1",
                  "data": {"mode": "state", "transitions": [{"actions": ["w"]}]}}}}}}

The server answers `video.start` (where all are busy, after `session.queue {position, depth}` as often as that
changes); then, for each chunk, `video.chunk_metadata` and one binary frame with its media; at the end exactly
one of `session.done` and `error`. An interaction is answered by `session.interaction.queued`; a bad one by
`session.interaction.rejected`, and the stream goes on. What is not followed and changes nothing is told by
`session.warning`.

A `continuous` stream makes chunk after chunk, in the time of the video. A `stepped` one makes a chunk for
each interaction, and before that one for each that its `camera_action_script` has.

| the client sends | and so |
|---|---|
| `session.interaction {interaction: {event_id?, event, transition_chunks?}}`, where `event` has a `prompt`, \
`multi_modal_data: {camera}`, or both | the next chunk has it; the same `event_id` again changes nothing |
| `session.ping` | `session.pong`; a stream with neither chunks nor messages ends after a minute |
| `session.ack {transport_chunk_index}` | up to this chunk all arrived: who says so gets only a few more |
| `session.cancel` | the chunk in flight is dropped, unless it was sent; its events are in the next |
| `session.reset {resume?}` | back to the first frame: `session.reset {epoch, discarded_event_ids}`; a \
continuous stream waits for a prompt, or with `resume` goes on with that of the opening |
| `session.rewind {to_chunk}` | back to where so many chunks were made: \
`session.rewound {epoch, chunk_index}`; pending events stay |
| `session.stop` | the stream ends with `session.done`, and with it a session that this socket made |
| `session.close` | the stream and the session end |

`active_event_ids` of a chunk are the events in force behind it, `completed_event_ids` those that it ended: \
replaced by another one, or done (a script has run out, a `target` is reached).

A session outlives its connection. Within 30 seconds (by default; then it is suspended, and wakes up when it
is used again) another socket begins with

    {"type": "session.resume", "session_id": "...", "token": "...", "last_transport_chunk_index": 7}

and gets `video.start`, `session.resumed {from_transport_chunk_index, epoch, chunk_index}`, and every chunk
behind the one that it names (-1: from the first). The newest connection plays; the former one gets `error`
`taken_over`. Whoever begins with

    {"type": "session.attach", "session_id": "...", "token": "..."}

watches what another one plays, from the last chunk on, and can send `session.ping` and `session.stop`.
"""


class Application(FastAPI):
    """FastAPI, whose description has `Problem` and not the validation errors that no client ever sees."""

    def openapi(self) -> dict[str, Any]:
        """The description, made once."""
        if self.openapi_schema is None:
            described = super().openapi()
            schemas = described["components"]["schemas"]
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            schemas["Problem"] = Problem.model_json_schema()
        return super().openapi()
