"""Events from a client, as the socket and REST have them: a prompt, controls, or both."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from app.message import EventName, Message, Text


class MultiModal(Message):
    """What comes with a prompt, or without one."""

    camera: dict[str, Any] | None = Field(
        None,
        description="Either `schema` and `data` (see the model's `control_schemas`), or vLLM-Omni's "
        "SE(3) form: `mode` (`velocity` or `target`) and `data` with `translation` [x, y, z], y up, and "
        "`rotation` [x, y, z, w].",
        examples=[{"mode": "velocity", "data": {"translation": [0, 0, 0.05], "rotation": [0, 0, 0, 1]}}],
    )


class ControlInput(Message):
    """One control: a track of the model, a schema that the track knows, and its data."""

    track: str = Field(
        min_length=1,
        max_length=64,
        description="A track of the model's `control_schemas`.",
        examples=["camera"],
    )
    schema_: str = Field(
        alias="schema",
        min_length=1,
        max_length=128,
        description="How `data` is to be read: one of the track's schemas.",
        examples=["lingbot.camera_actions.v1"],
    )
    data: Any = Field(
        description="What the schema says.",
        examples=[{"mode": "state", "transitions": [{"actions": ["w"]}]}],
    )


class EventBody(Message):
    """A prompt, a camera, or both."""

    prompt: Text | None = Field(None, description="What the world becomes, from the next chunk on.")
    multi_modal_data: MultiModal | None = Field(None, description="A camera control.")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.prompt is None and (self.multi_modal_data is None or self.multi_modal_data.camera is None):
            raise PydanticCustomError("empty_event", "needs a `prompt` or `multi_modal_data.camera`")
        return self


TransitionChunks = Annotated[int, Field(ge=0, le=10_000)]
TRANSITION = "Chunks over which an SE(3) `target` is reached: 1 by default, 0 at once."


class InteractionBody(Message):
    """An event from the socket; its id is any text."""

    event_id: EventName | None = Field(None, description="Chosen by the client; by default generated.")
    event: EventBody = Field(description="A prompt, a camera, or both.")
    transition_chunks: TransitionChunks | None = Field(None, description=TRANSITION)


class EventRequest(Message):
    """An event over REST: `event` in the socket's form, or `prompt` and `controls`."""

    event_id: Annotated[int, Field(ge=0, le=2**53 - 1)] = Field(
        description="Unique and rising in the session."
    )
    event: EventBody | None = Field(None, description="In the socket's form; or `prompt` and `controls`.")
    transition_chunks: TransitionChunks | None = Field(None, description=TRANSITION)
    prompt: Text | None = Field(None, description="What the world becomes, from the next chunk on.")
    controls: list[ControlInput] | None = Field(
        None, max_length=16, description="At most one for each track."
    )

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.event is None and self.prompt is None and not self.controls:
            raise PydanticCustomError("empty_event", "needs an `event`, a `prompt` or `controls`")
        if self.event is not None and (self.prompt is not None or self.controls):
            raise PydanticCustomError(
                "two_events", "takes either `event` or `prompt` and `controls`, not both"
            )
        return self
