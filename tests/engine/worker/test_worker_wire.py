"""What goes into the pipe comes out of it, however the pipe parts it."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_host import request

from engine.api import ChunkFailed, Control, EncodedChunk, StageTimes, Tick, WorldRefused
from engine.worker.messages import Cancel, Committed, Done, Failed, Open, Ready, Restore, Run, Usage
from engine.worker.wire import Frames, dump

TICK = Tick(
    session_id="s",
    world="w",
    epoch=2,
    request_id="r",
    chunk_index=7,
    event_ids=(3, 5),
    prompt="a plain",
    controls=(Control("camera", "lingbot.camera_actions.v1", {"mode": "state", "keys": ("w",)}),),
    conditioning={"camera": ({"keys": ("w",)}, {"keys": ()}, {"keys": ()})},
)
MEDIA = EncodedChunk("h264", "avc1.42c00a", 32, 16, 16, 9, (b"\0\0\1a", b"\0\0\1b"), "digest")
MESSAGES = [
    Run(1, TICK, None),
    Run(2, TICK, -0.5),
    Run(3, replace(TICK, controls=(), conditioning={}), 1.0),
    Ready(1, "r", MEDIA, StageTimes(1.0, 2.0, 3.0, 4.0)),
    Committed(1, "r", 5.0),
    Cancel(4),
    Done(5),
    Usage(3, 24),
    Open(6, request("w")),
    Restore(7, request("w"), bytes(300_000)),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_was_sent(message: object) -> None:
    assert Frames().feed(dump(message)) == [message]


def test_an_error_arrives_with_its_fields() -> None:
    [failed] = Frames().feed(dump(Failed(1, WorldRefused("width", "too wide"))))
    assert isinstance(failed, Failed) and isinstance(failed.error, WorldRefused)
    assert (failed.error.field, str(failed.error)) == ("width", "too wide")
    [other] = Frames().feed(dump(Failed(2, ChunkFailed("broke"))))
    assert isinstance(other, Failed) and isinstance(other.error, ChunkFailed)


@given(st.lists(st.sampled_from(MESSAGES), max_size=6), st.lists(st.integers(0, 4000), max_size=8))
def test_messages_may_be_parted_anywhere(messages: list[object], cuts: list[int]) -> None:
    stream = b"".join(map(dump, messages))
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    frames = Frames()
    heard = [message for start, end in pairwise(edges) for message in frames.feed(stream[start:end])]
    assert heard == messages
    assert frames.feed(b"") == []


def test_a_message_is_not_heard_before_its_last_byte() -> None:
    data, frames = dump(Done(1)), Frames()
    assert [frames.feed(data[index : index + 1]) for index in range(len(data))] == [
        *[[]] * (len(data) - 1),
        [Done(1)],
    ]


@pytest.mark.parametrize("message", MESSAGES[:5], ids=lambda message: type(message).__name__)
def test_what_every_chunk_sends_names_no_class(message: object) -> None:
    assert not any(name in dump(message) for name in (b"engine.worker", b"engine.api"))
    assert b"engine.worker" in pickle.dumps(message)
