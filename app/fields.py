"""Where a refused value stands in what the client sent: the session layer's paths, in the wire's terms."""

from __future__ import annotations

import re

from app.controls import SE3

IMAGE_FIELD = "image_reference.image_url"
CAMERA_FIELD = "interaction.event.multi_modal_data.camera"
SCRIPT_FIELD = "extra_params.camera_action_script"
FRAMES_PER_CHUNK = 3  # of a script on the wire

_FRAME = re.compile(r"script\.data\.frames\[(\d+)\](.*)", re.DOTALL)


def start_field(field: str) -> str:
    """A field of `session.start` or *Make a session*: an image and a script have other names there."""
    if field == "image":
        return IMAGE_FIELD
    frame = _FRAME.fullmatch(field)
    if frame is not None:
        chunk, place = divmod(int(frame[1]), FRAMES_PER_CHUNK)
        return f"{SCRIPT_FIELD}[{chunk}][{place}]{frame[2]}"
    return SCRIPT_FIELD if field.split(".")[0] == "script" else field


def interaction_field(field: str, schema: str | None) -> str:
    """A field of an interaction, whose one control is its camera; the SE(3) form has no `data` around it."""
    inside = field.removeprefix("controls[0]")
    if inside == field:
        return field
    if schema == SE3:
        inside = inside.removeprefix(".data")
        if inside == ".transition_chunks":
            return f"interaction{inside}"
    return CAMERA_FIELD + inside


def with_field(message: str, field: str | None, wire_field: str | None) -> str:
    """The message with the wire's path, where it begins with the session layer's or the end of that."""
    path, colon, rest = message.partition(": ")
    told = colon and field is not None and wire_field is not None and f".{field}".endswith(f".{path}")
    return f"{wire_field}: {rest}" if told else message
