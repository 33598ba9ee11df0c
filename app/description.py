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

After it, at any time, `session.interaction`, `session.ping`, `session.stop`, `session.reset`,
`session.cancel`, `session.close` and `session.ack`. This holds the key `w`, to walk forward:

    {"type": "session.interaction", "interaction": {"event_id": "walk", "event": {"multi_modal_data":
      {"camera": {"schema": "lingbot.camera_actions.v1",
                  "data": {"mode": "state", "transitions": [{"actions": ["w"]}]}}}}}}

The server answers `video.start`; then, for each chunk, `video.chunk_metadata` and one binary frame with its
media; at the end exactly one of `session.done` and `error`. A bad interaction is answered by
`session.interaction.rejected`, and the stream goes on.
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
