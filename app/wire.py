"""The messages that clients send over the socket, and REST's with the same fields: their shape.

What depends on the served model (sizes, frame counts, scenes) is decided in `app.intake`.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field

from app.event_request import InteractionBody
from app.message import Count, Message, Secret, SessionId, validated
from app.refusals import InvalidField, MessageTooLarge, shortened
from app.session_request import SessionRequest
from app.strict_json import parse_object, require_few_values

API_KEY = "An API key, where no header can be sent."


class Start(SessionRequest):
    """`session.start`: a new session, or (with `token`) one that REST made."""

    type: Literal["session.start"]
    token: Secret | None = Field(None, description="Of the session that `session_id` names.")
    api_key: Secret | None = Field(None, description=API_KEY)
    wait: bool = Field(True, description="Wait in line where all are busy; false: be refused at once.")


class Interaction(Message):
    """`session.interaction`."""

    type: Literal["session.interaction"]
    interaction: InteractionBody = Field(description="The event, and its name.")


class Ping(Message):
    """`session.ping`."""

    type: Literal["session.ping"]


class Stop(Message):
    """`session.stop`: end the stream."""

    type: Literal["session.stop"]


class Ack(Message):
    """`session.ack`: everything up to this chunk has arrived."""

    type: Literal["session.ack"]
    transport_chunk_index: Count = Field(description="The newest that has arrived.")


class ResetRequest(Message):
    """How to go on after a reset: continuous streams wait for a prompt unless `resume` is true."""

    resume: bool = Field(False, description="Go on at once, with the prompt and script of the opening.")


class Reset(ResetRequest):
    """`session.reset`: back to the first frame."""

    type: Literal["session.reset"]


class Resume(Message):
    """`session.resume`: go on with a session whose connection was lost."""

    type: Literal["session.resume"]
    session_id: SessionId = Field(description="Its name.")
    token: Secret = Field(description="What `video.start` or *Make a session* told.")
    last_transport_chunk_index: Annotated[int, Field(ge=-1, le=2**31 - 1)] = Field(
        description="The last chunk that arrived; -1 where none did."
    )
    api_key: Secret | None = Field(None, description=API_KEY)
    wait: bool = Field(True, description="Wait in line where all are busy; false: be refused at once.")


class Attach(Message):
    """`session.attach`: watch a session that somebody else plays."""

    type: Literal["session.attach"]
    session_id: SessionId = Field(description="Its name.")
    token: Secret = Field(description="What `video.start` or *Make a session* told.")
    api_key: Secret | None = Field(None, description=API_KEY)


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
