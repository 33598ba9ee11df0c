"""What tests of a socket share."""

import io
import json
from collections.abc import Awaitable, Callable
from typing import Any

import av
import pytest

from app.client import ServerError, Stream

Start = Callable[..., Awaitable[Any]]


MEADOW = {"prompt": "a meadow"}


def decoded(data: bytes, kind: str = "mp4") -> list[Any]:
    with av.open(io.BytesIO(data), format=kind) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


async def refusal(stream: Stream, message: dict[str, Any] | str | bytes) -> ServerError:
    """What the server says to a first message that it refuses, before any `video.start`."""
    await stream.socket.send(message if isinstance(message, str | bytes) else json.dumps(message))
    with pytest.raises(ServerError) as refused:
        await stream.receive()
    assert [one["type"] for one in stream.messages] == ["error"]
    return refused.value
