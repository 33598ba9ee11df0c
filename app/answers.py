"""What OpenAPI says of the routes' answers: errors, and media."""

from __future__ import annotations

from typing import Any

from app.problems import MEDIA_TYPE


def problems(**by_status: str) -> dict[int | str, dict[str, Any]]:
    """Answers for errors, e.g. `s404="no such session"`."""
    return {
        int(status[1:]): {
            "description": text,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status, text in by_status.items()
    }


def media(description: str, *types: str) -> dict[str, Any]:
    """An answer of bytes, in one of these media types."""
    schema = {"type": "string", "format": "binary"}
    return {"description": description, "content": {one: {"schema": schema} for one in types}}


ANY = problems(
    s400="A body that is not JSON.",
    s408="The body did not arrive in time: try again.",
    s413="The body is too large.",
    s415="The body is not declared as JSON.",
    s422="A field is wrong: `field` names it.",
    s500="The server failed.",
    s503="Not now: the model loads or restarts, or the server shuts down. Try again after `Retry-After`.",
)
UNKNOWN = {"s401": "No valid API key.", "s404": "No such session."}
MISSING = {**UNKNOWN, "s410": "The session is closed."}
