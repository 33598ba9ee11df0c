"""Events from the wire: prompts and controls, as far as they can be judged without the model's reducer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.event_request import EventBody, EventRequest
from app.refusals import InvalidField, shortened
from app.settings import Settings
from engine.api import Control, ModelCard
from sessions.events import Event

CAMERA = "camera"
ACTIONS = "lingbot.camera_actions.v1"
SE3 = "vllm_omni.camera_se3.v1"


def event_of(request: EventRequest, card: ModelCard, settings: Settings) -> Event:
    """An event that came over REST."""
    if request.event is not None:
        prompt, controls = body_of(request.event, request.transition_chunks, "event", card, settings)
        return Event(request.event_id, prompt, controls)
    prompt = request.prompt if request.prompt is None else checked_prompt(request.prompt, "prompt", settings)
    asked = request.controls or ()
    for index, control in enumerate(asked):
        check_schema(control.track, control.schema_, f"controls[{index}]", card)
    return Event(
        request.event_id, prompt, tuple(Control(given.track, given.schema_, given.data) for given in asked)
    )


def body_of(
    body: EventBody, transition_chunks: int | None, field: str, card: ModelCard, settings: Settings
) -> tuple[str | None, tuple[Control, ...]]:
    """The prompt and controls of an event in the socket's form; `field` is where it stands in the message."""
    prompt = None if body.prompt is None else checked_prompt(body.prompt, f"{field}.prompt", settings)
    camera = None if body.multi_modal_data is None else body.multi_modal_data.camera
    if camera is None:
        return prompt, ()
    return prompt, (_camera(camera, transition_chunks, f"{field}.multi_modal_data.camera", card),)


def checked_prompt(prompt: str | None, field: str, settings: Settings) -> str:
    """The prompt, which must say something and not too much."""
    allowed = f"1 to {settings.prompt_max_chars} characters"
    if prompt is None:
        raise InvalidField(field, f"required: {allowed}; got nothing")
    if not prompt.strip():
        raise InvalidField(field, f"must say something: {allowed}; got {shortened(prompt)}")
    if len(prompt) > settings.prompt_max_chars:
        raise InvalidField(field, f"must have {allowed}; got {len(prompt)}")
    return prompt


def _camera(camera: Mapping[str, Any], transitions: int | None, field: str, card: ModelCard) -> Control:
    if "schema" not in camera:
        for key in camera:
            if key not in ("mode", "data"):
                raise InvalidField(
                    f"{field}.{shortened(key)[1:-1]}",
                    "unknown field; allowed: data, mode, or schema and data",
                )
        check_schema(CAMERA, SE3, field, card)
        more: dict[str, Any] = {} if transitions is None else {"transition_chunks": transitions}
        return Control(CAMERA, SE3, {**camera, **more})
    schema = camera["schema"]
    if set(camera) != {"schema", "data"}:
        raise InvalidField(
            field, f"must have `schema` and `data` alone; got {', '.join(sorted(camera))[:80]}"
        )
    if not isinstance(schema, str):
        raise InvalidField(f"{field}.schema", f"must be text; got {shortened(schema)}")
    check_schema(CAMERA, schema, field, card)
    return Control(CAMERA, schema, camera["data"])


def check_schema(track: str, schema: str, field: str, card: ModelCard) -> None:
    """Raise `InvalidField` where the model has no such track, or the track no such schema."""
    known = card.control_schemas
    if track not in known:
        raise InvalidField(f"{field}.track", f"must be one of {', '.join(known)}; got {shortened(track)}")
    if schema not in known[track]:
        allowed = ", ".join(known[track])
        raise InvalidField(f"{field}.schema", f"must be one of {allowed}; got {shortened(schema)}")
