"""The messages that clients send, over the socket and over REST: their shape, each validated once.

What depends on the served model (sizes, frame counts, scenes) is decided in `app.intake`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from app.refusals import InvalidField, MessageTooLarge, shortened
from app.strict_json import Json, parse_object, require_few_values

SessionId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$", examples=["my-walk"])]
EventName = Annotated[str, Field(min_length=1, max_length=128)]
Text = Annotated[str, Field(max_length=65_536)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
Secret = Annotated[str, Field(min_length=1, max_length=512)]
Format = Literal["m4s", "annexb", "jpeg"]
Mode = Literal["continuous", "stepped"]

_SECRET_FIELDS = frozenset({"token", "api_key"})


class Message(BaseModel):
    """A JSON object from a client: types are strict, unknown keys are refused."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any) -> Any:
        allowed = {name if info.alias is None else info.alias for name, info in cls.model_fields.items()}
        for key in data if isinstance(data, dict) else ():
            if key not in allowed:
                told = {"key": str(key), "allowed": ", ".join(sorted(allowed))}
                raise PydanticCustomError("unknown_field", "unknown field; allowed: {allowed}", told)
        return data


class ImageReference(Message):
    """A first frame that the client brings."""

    image_url: str = Field(
        description="A data URL of a PNG, JPEG or WebP image, or a web address if the server allows its host."
    )


class ExtraParams(Message):
    """Options of a stream beyond vLLM-Omni's own fields."""

    camera_action_script: list[list[list[str]]] | None = Field(
        None, description="Keys held: [chunk][3 latent frames][keys]."
    )
    pace_to_media_time: bool | None = Field(None, description="Send no faster than the video plays.")
    pacing_lead_seconds: float | None = Field(
        None, ge=0, le=60, description="How far ahead of the viewer to run."
    )
    pacing_max_lag_seconds: float | None = Field(
        None, ge=0, le=600, description="How far behind before pacing starts over."
    )


class SessionRequest(Message):
    """What a client asks of a new session. Sizes, rate and length default to the model's."""

    prompt: Text | None = Field(None, description="What the world is.", examples=["a meadow with a red barn"])
    image_reference: ImageReference | None = Field(None, description="The first frame; or name a `scene`.")
    scene: str | None = Field(None, max_length=128, description="A built-in first frame; see `/v1/models`.")
    model: str | None = Field(
        None, max_length=256, description="Must be the served model's name or an alias."
    )
    width: Count | None = Field(None, description="Pixels; a multiple of the model's `size_multiple`.")
    height: Count | None = Field(None, description="Pixels; a multiple of the model's `size_multiple`.")
    fps: Annotated[int, Field(ge=1, le=120)] | None = Field(
        None, description="Frames per second of the video."
    )
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = Field(None, description="Same seed, same world.")
    num_frames: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = Field(
        None, description="Length in frames, whole chunks; without it the stream runs until it is stopped."
    )
    flow_shift: Annotated[float, Field(gt=0, le=100)] | None = Field(
        None, description="Shift of the noise schedule."
    )
    negative_prompt: str | None = Field(
        None, max_length=65_536, description="Must be empty: there is no guidance."
    )
    num_inference_steps: Count | None = Field(None, description="The model's own count of steps.")
    format: Format = Field("m4s", description="How chunks are packed.")
    extra_params: ExtraParams | None = None
    session_id: SessionId | None = Field(None, description="Chosen by the client; by default generated.")
    mode: Mode = Field("continuous", description="`stepped` makes one chunk per event.")


class Start(SessionRequest):
    """`session.start`: a new session, or (with `token`) one that REST made."""

    type: Literal["session.start"]
    token: Secret | None = None
    api_key: Secret | None = None


class MultiModal(Message):
    """What comes with a prompt, or without one."""

    camera: dict[str, Any] | None = None


class ControlInput(Message):
    """One control: a track of the model, a schema that the track knows, and its data."""

    track: str = Field(min_length=1, max_length=64, examples=["camera"])
    schema_: str = Field(alias="schema", min_length=1, max_length=128, examples=["lingbot.camera_actions.v1"])
    data: Any


class EventBody(Message):
    """A prompt, a camera, or both."""

    prompt: Text | None = None
    multi_modal_data: MultiModal | None = None

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.prompt is None and (self.multi_modal_data is None or self.multi_modal_data.camera is None):
            raise PydanticCustomError("empty_event", "needs a `prompt` or `multi_modal_data.camera`")
        return self


TransitionChunks = Annotated[int, Field(ge=0, le=10_000)]


class InteractionBody(Message):
    """An event from the socket; its id is any text."""

    event_id: EventName | None = None
    event: EventBody
    transition_chunks: TransitionChunks | None = None


class Interaction(Message):
    """`session.interaction`."""

    type: Literal["session.interaction"]
    interaction: InteractionBody


class EventRequest(Message):
    """An event over REST: `event` in the socket's form, or `prompt` and `controls`."""

    event_id: Annotated[int, Field(ge=0, le=2**53 - 1)] = Field(
        description="Unique and rising in the session."
    )
    event: EventBody | None = None
    transition_chunks: TransitionChunks | None = None
    prompt: Text | None = None
    controls: list[ControlInput] | None = Field(None, max_length=16)

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.event is None and self.prompt is None and not self.controls:
            raise PydanticCustomError("empty_event", "needs an `event`, a `prompt` or `controls`")
        if self.event is not None and (self.prompt is not None or self.controls):
            raise PydanticCustomError(
                "two_events", "takes either `event` or `prompt` and `controls`, not both"
            )
        return self


class Ping(Message):
    """`session.ping`."""

    type: Literal["session.ping"]


class Stop(Message):
    """`session.stop`: end the stream."""

    type: Literal["session.stop"]


class Ack(Message):
    """`session.ack`: everything up to this chunk has arrived."""

    type: Literal["session.ack"]
    transport_chunk_index: Count


class ResetRequest(Message):
    """How to go on after a reset: continuous streams wait for a prompt unless `resume` is true."""

    resume: bool = False


class Reset(ResetRequest):
    """`session.reset`: back to the first frame."""

    type: Literal["session.reset"]


class Resume(Message):
    """`session.resume`: go on with a session whose connection was lost."""

    type: Literal["session.resume"]
    session_id: SessionId
    token: Secret
    last_transport_chunk_index: Annotated[int, Field(ge=-1, le=2**31 - 1)] = Field(
        description="The last chunk that arrived; -1 where none did."
    )
    api_key: Secret | None = None


class Attach(Message):
    """`session.attach`: watch a session that somebody else plays."""

    type: Literal["session.attach"]
    session_id: SessionId
    token: Secret
    api_key: Secret | None = None


class RewindRequest(Message):
    """Back to where so many chunks were committed."""

    to_chunk: Count = Field(description="The index of the next chunk.")


class Rewind(RewindRequest):
    """`session.rewind`."""

    type: Literal["session.rewind"]


class ForkRequest(Message):
    """Where a fork leaves the session, and what it is called."""

    at_chunk: Count | None = Field(None, description="The index of its next chunk; by default the newest.")
    session_id: SessionId | None = Field(None, description="Chosen by the client; by default generated.")


class Cancel(Message):
    """`session.cancel`: drop the chunk in flight; the stream goes on."""

    type: Literal["session.cancel"]


class Close(Message):
    """`session.close`: end the stream and the session."""

    type: Literal["session.close"]


Opening = Start | Resume | Attach
ClientMessage = Opening | Interaction | Ping | Stop | Ack | Reset | Rewind | Cancel | Close
MESSAGES: dict[str, type[ClientMessage]] = {
    "session.start": Start,
    "session.resume": Resume,
    "session.attach": Attach,
    "session.interaction": Interaction,
    "session.ping": Ping,
    "session.stop": Stop,
    "session.ack": Ack,
    "session.reset": Reset,
    "session.rewind": Rewind,
    "session.cancel": Cancel,
    "session.close": Close,
}

M = TypeVar("M", bound=Message)


def parse_message(text: str) -> ClientMessage:
    """The message in `text`. Raises `NotJson` or `InvalidField`."""
    data = parse_object(text)
    kind = data.get("type")
    if not isinstance(kind, str) or kind not in MESSAGES:
        raise InvalidField("type", f"must be one of {', '.join(MESSAGES)}; got {shortened(kind)}")
    return validated(MESSAGES[kind], data)


def claimed(text: str) -> tuple[str, str | None]:
    """What a message that was refused says it is: its type, and its interaction's id where it has one."""
    try:
        require_few_values(text)
        data = json.loads(text)
    except (MessageTooLarge, ValueError, RecursionError):
        return "", None
    if not isinstance(data, dict):
        return "", None
    interaction = data.get("interaction")
    name = interaction.get("event_id") if isinstance(interaction, dict) else None
    return str(data.get("type"))[:64], name[:128] if isinstance(name, str) else None


def validated(model: type[M], data: Json) -> M:
    """`data` as `model`. Raises `InvalidField`, which names the first field that is wrong."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise refusal_of(error.errors(include_url=False)[0]) from None


def refusal_of(detail: ErrorDetails) -> InvalidField:
    """The refusal that says what pydantic found: the field, what came, what is allowed."""
    place: tuple[int | str, ...] = detail["loc"]
    if detail["type"] == "unknown_field":
        place = (*place, shortened(detail["ctx"]["key"]).strip("'"))
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
    message = detail["msg"].replace("Input should be", "must be").replace("String should", "must")
    if detail["type"] in ("missing", "unknown_field", "empty_event", "two_events"):
        got = ""
    elif field.rpartition(".")[2] in _SECRET_FIELDS:
        got = "; got another"
    else:
        got = f"; got {shortened(detail['input'])}"
    return InvalidField(field or "message", f"{message}{got}")
