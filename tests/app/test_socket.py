"""Streams over real sockets, as clients see them."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import av
import pytest
from websockets.asyncio.client import connect

from app.client import ServerError, Stream
from app.paths import SOCKET_PATH
from engine.api import ChunkCommitted, ChunkFailed, ChunkReady, Tick
from engine.pattern.engine import PatternEngine

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


# Video


async def test_a_stream_starts_with_its_geometry(server: Any) -> None:
    async with server.client.stream(**MEADOW) as stream:
        video = stream.video
        assert video["format"] == "m4s"
        assert video["session_id"] and video["token"] and video["request_id"]
        config = video["config"]
        assert (config["width"], config["height"], config["fps"], config["model"]) == (96, 64, 16, "pattern")
        assert (config["first_chunk_frames"], config["chunk_frames"]) == (9, 12)
        assert config["codec"].startswith("avc1.42c0")


async def test_chunk_0_has_9_frames_and_each_later_one_12_in_exactly_its_message(server: Any) -> None:
    async with server.client.stream(**MEADOW) as stream:
        chunks = [await stream.chunk() for _ in range(4)]
    head = chunks[0].data[: chunks[0].data.index(b"moof") - 4]
    for index, chunk in enumerate(chunks):
        metadata = chunk.metadata
        assert metadata["num_frames"] == (12 if index else 9)
        assert metadata["byte_length"] == len(chunk.data)
        assert metadata["generation_chunk_index"] == metadata["transport_chunk_index"] == index
        assert metadata["kind"] == "media" and metadata["keyframe"] is True
        assert len(decoded(chunk.data if index == 0 else head + chunk.data)) == metadata["num_frames"]
    assert chunks[2].metadata["media_time"] == pytest.approx((9 + 12) / 16)


async def test_a_chunk_tells_the_times_of_its_stages_and_of_the_commit_before(server: Any) -> None:
    async with server.client.stream(**MEADOW) as stream:
        first, second = await stream.chunk(), await stream.chunk()
    assert set(first.metadata["timing"]) == {"queue_ms", "denoise_ms", "decode_ms", "encode_ms", "commit_ms"}
    assert first.metadata["timing"]["commit_ms"] is None
    assert second.metadata["timing"]["commit_ms"] >= 0


async def test_annexb_is_cut_into_access_units_by_its_frame_sizes(server: Any) -> None:
    async with server.client.stream(**MEADOW, format="annexb") as stream:
        for _ in range(2):
            chunk = await stream.chunk()
            sizes = chunk.metadata["frame_sizes"]
            assert sum(sizes) == len(chunk.data)
            offsets = [sum(sizes[:index]) for index in range(len(sizes))]
            assert all(chunk.data[at : at + 4] == b"\0\0\0\1" for at in offsets)
            assert len(decoded(chunk.data, "h264")) == chunk.metadata["num_frames"] == len(sizes)


async def test_jpeg_is_cut_into_pictures_by_its_frame_sizes(server: Any) -> None:
    async with server.client.stream(**MEADOW, format="jpeg") as stream:
        assert stream.video["config"]["codec"] == "mjpeg"
        chunk = await stream.chunk()
    at = 0
    for size in chunk.metadata["frame_sizes"]:
        assert chunk.data[at : at + 2] == b"\xff\xd8" and chunk.data[at + size - 2 : at + size] == b"\xff\xd9"
        at += size
    assert at == len(chunk.data)


async def test_equal_seeds_give_equal_bytes_and_another_seed_does_not(server: Any) -> None:
    async def first(seed: int) -> bytes:
        async with server.client.stream(**MEADOW, seed=seed) as stream:
            return (await stream.chunk()).data

    assert await first(3) == await first(3) != await first(4)


async def test_a_stream_of_so_many_frames_ends_by_itself(server: Any) -> None:
    async with server.client.stream(**MEADOW, num_frames=33) as stream:
        frames = [(await stream.chunk()).metadata["num_frames"] for _ in range(3)]
        done = await stream.done()
    assert frames == [9, 12, 12]
    assert (done["chunks"], done["stopped"], done["request_id"]) == (3, False, stream.video["request_id"])
    assert stream.socket.close_code == 1000


# Interactions


async def test_an_interaction_is_queued_and_named_by_the_chunk_that_shows_it(server: Any) -> None:
    async with server.client.stream(**MEADOW, mode="stepped") as stream:
        await stream.keys("w", event_id="walk")
        assert (await stream.receive())["event_id"] == "walk"
        shown = (await stream.chunk()).metadata
        assert (shown["started_event_ids"], shown["active_event_ids"]) == (["walk"], ["walk"])
        await stream.interact(prompt="a desert", event_id="desert")
        after = (await stream.chunk()).metadata
        assert after["started_event_ids"] == ["desert"]
    kinds = [message["type"] for message in stream.messages]
    assert kinds == ["video.start", "session.interaction.queued", "session.interaction.queued"]


async def test_keys_change_the_picture(server: Any) -> None:
    async def second_chunk(*keys: str) -> list[Any]:
        async with server.client.stream(**MEADOW, seed=1, mode="stepped", format="annexb") as stream:
            await stream.keys(*keys)
            return decoded((await stream.chunk()).data, "h264")

    still, turned = await second_chunk(), await second_chunk("j")
    assert abs(still[-1].astype(int) - turned[-1].astype(int)).mean() > 1


async def test_a_velocity_in_vllm_omni_s_form_is_taken(server: Any) -> None:
    async with server.client.stream(**MEADOW, mode="stepped") as stream:
        pose = {"translation": [0, 0, 0.1], "rotation": [0, 0, 0, 1]}
        await stream.interact(camera={"mode": "velocity", "data": pose}, event_id="v", transition_chunks=1)
        assert (await stream.message("session.interaction.queued"))["event_id"] == "v"
        assert (await stream.chunk()).metadata["started_event_ids"] == ["v"]


async def test_a_target_that_is_reached_completes_its_event(server: Any) -> None:
    pose = {"translation": [0, 0, 0.6], "rotation": [0, 0, 0, 1]}
    seen = []
    async with server.client.stream(**MEADOW) as stream:
        await stream.interact(camera={"mode": "target", "data": pose}, event_id="there", transition_chunks=2)
        while not seen or not seen[-1]["completed_event_ids"]:
            seen.append((await stream.chunk()).metadata)
    first = next(index for index, chunk in enumerate(seen) if chunk["started_event_ids"])
    told = [(chunk["active_event_ids"], chunk["completed_event_ids"]) for chunk in seen[first:]]
    assert told == [(["there"], []), ([], ["there"])]


async def test_a_stepped_stream_waits_for_its_first_interaction(server: Any) -> None:
    async with server.client.stream(**MEADOW, mode="stepped") as stream:
        await stream.send("session.ping")
        assert (await stream.receive())["type"] == "session.pong"
        await stream.keys("w", event_id="walk")
        chunk = await stream.chunk()
        assert chunk.metadata["generation_chunk_index"] == 0
        assert chunk.metadata["started_event_ids"] == ["walk"]


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"event": {}}, "invalid_request", "interaction.event"),
        ({"event": {"prompt": " "}}, "invalid_request", "interaction.event.prompt"),
        ({"event": {"prompt": "x" * 5000}}, "invalid_request", "interaction.event.prompt"),
        ({"event": {"prompt": "a", "sound": 1}}, "invalid_request", "interaction.event.sound"),
        (
            {"event": {"multi_modal_data": {"camera": {"schema": "no.such", "data": {}}}}},
            "invalid_request",
            "interaction.event.multi_modal_data.camera.schema",
        ),
        (
            {"event": {"multi_modal_data": {"camera": {"mode": "velocity", "data": {}, "speed": 2}}}},
            "invalid_request",
            "interaction.event.multi_modal_data.camera.speed",
        ),
        (
            {
                "event": {
                    "multi_modal_data": {
                        "camera": {
                            "schema": "lingbot.camera_actions.v1",
                            "data": {"mode": "state", "transitions": [{"actions": ["q"]}]},
                        }
                    }
                }
            },
            "invalid_control",
            "interaction.event.multi_modal_data.camera.data.transitions[0].actions[0]",
        ),
    ],
)
async def test_a_bad_interaction_is_rejected_by_name_and_the_stream_goes_on(
    server: Any, body: dict[str, Any], code: str, field: str
) -> None:
    async with server.client.stream(**MEADOW, mode="stepped") as stream:
        await stream.send("session.interaction", interaction={"event_id": "bad", **body})
        rejected = await stream.receive()
        assert (rejected["type"], rejected["event_id"]) == ("session.interaction.rejected", "bad")
        assert (rejected["code"], rejected["field"]) == (code, field)
        await stream.keys("w", event_id="good")
        assert (await stream.chunk()).metadata["started_event_ids"] == ["good"]


async def test_nan_in_an_interaction_is_rejected(server: Any) -> None:
    async with server.client.stream(**MEADOW, mode="stepped") as stream:
        await stream.socket.send(
            '{"type": "session.interaction", "interaction": {"event_id": "n", "event": NaN}}'
        )
        rejected = await stream.receive()
        assert (rejected["type"], rejected["event_id"], rejected["field"]) == (
            "session.interaction.rejected",
            "n",
            "interaction.event",
        )


async def test_a_too_long_interaction_is_rejected_and_the_stream_goes_on(server: Any) -> None:
    async with server.client.stream(**MEADOW, mode="stepped") as stream:
        await stream.interact(prompt="x" * 131_072)
        rejected = await stream.receive()
        assert (rejected["type"], rejected["code"]) == ("session.interaction.rejected", "message_too_large")
        await stream.keys("w")
        await stream.chunk()


async def test_one_event_id_with_two_payloads_is_a_conflict(server: Any) -> None:
    async with server.client.stream(**MEADOW, mode="stepped") as stream:
        await stream.interact(prompt="a desert", event_id="e")
        await stream.chunk()
        await stream.interact(prompt="a city", event_id="e")
        rejected = await stream.message("session.interaction.rejected")
        assert (rejected["code"], rejected["event_id"]) == ("event_id_conflict", "e")


async def test_unknown_messages_are_warned_of_and_the_stream_goes_on(server: Any) -> None:
    async with server.client.stream(**MEADOW, mode="stepped") as stream:
        for kind, field in [
            ("session.dance", "type"),
            ("session.start", "type"),
            ("session.ack", "transport_chunk_index"),
        ]:
            await stream.send(kind)
            warning = await stream.receive()
            assert (warning["type"], warning["field"]) == ("session.warning", field)
        await stream.send("session.ping")
        assert (await stream.receive())["type"] == "session.pong"


# Control of the stream


async def test_stop_ends_with_done_and_a_clean_close(server: Any) -> None:
    async with server.client.stream(**MEADOW) as stream:
        await stream.chunk()
        await stream.send("session.stop")
        done = await stream.done()
        assert done["stopped"] is True
        assert stream.socket.close_code == 1000
    assert server.edge.manager.awake_count == 0


async def test_close_ends_stream_and_session(server: Any) -> None:
    async with server.client.stream(**MEADOW, session_id="brief") as stream:
        await stream.chunk()
        await stream.send("session.close")
        await stream.done()
    with pytest.raises(ServerError) as gone:
        await server.client.call("GET", "/v1/sessions/brief")
    assert gone.value.code == "session_closed"


async def test_reset_starts_a_new_epoch_and_waits_for_a_prompt(server: Any) -> None:
    async with server.client.stream(**MEADOW) as stream:
        first = await stream.chunk()
        await stream.send("session.reset")
        reset = await stream.message("session.reset")
        assert (reset["epoch"], reset["discarded_event_ids"]) == (1, [])
        await stream.interact(prompt="a meadow")
        again = await stream.chunk()
        assert (again.metadata["epoch"], again.metadata["generation_chunk_index"]) == (1, 0)
        assert again.metadata["num_frames"] == first.metadata["num_frames"] == 9


async def test_a_reset_that_resumes_plays_the_same_first_chunk_again(server: Any) -> None:
    async with server.client.stream(**MEADOW, format="annexb", mode="stepped") as stream:
        await stream.keys("w")
        first = await stream.chunk()
        await stream.send("session.reset", resume=True)
        await stream.message("session.reset")
        await stream.keys("w")
        assert (await stream.chunk()).data == first.data


async def test_cancel_drops_the_chunk_in_flight_and_the_stream_goes_on(start_server: Start) -> None:
    engine = PatternEngine(chunk_seconds=0.2)
    server = await start_server(engine)
    async with server.client.stream(**MEADOW) as stream:
        await server.until(lambda: engine.status().queue_depth)
        await stream.send("session.cancel")
        assert (await stream.chunk()).metadata["generation_chunk_index"] == 0


async def test_an_acknowledgement_is_taken_in_silence(server: Any) -> None:
    async with server.client.stream(**MEADOW, mode="stepped") as stream:
        await stream.keys("w")
        await stream.chunk()
        await stream.send("session.ack", transport_chunk_index=0)
        await stream.send("session.ping")
        assert (await stream.receive())["type"] == "session.pong"


async def test_pings_are_answered_while_a_chunk_computes(start_server: Start) -> None:
    server = await start_server(PatternEngine(chunk_seconds=0.3))
    async with server.client.stream(**MEADOW) as stream:
        await stream.send("session.ping")
        assert (await stream.receive())["type"] == "session.pong"


async def test_a_start_of_vllm_omni_plays_on_a_model_of_fixed_noise_with_warnings(server: Any) -> None:
    extra = {"flow_shift": 5.0, "camera_action_script": [[["w"], ["w"], ["w"]]], "pyramid_num_stages": 3}
    fields = {"guidance_scale": 1.0, "num_inference_steps": 4, "fps": 16.0, "extra_params": extra}
    async with server.client.stream(**MEADOW, **fields, num_frames=9) as stream:
        await stream.chunk()
        await stream.done()
    warned = [(one["code"], one["field"]) for one in stream.messages if one["type"] == "session.warning"]
    assert warned == [
        ("shift_fixed", "extra_params.flow_shift"),
        ("field_ignored", "extra_params.pyramid_num_stages"),
    ]


async def test_a_distilled_model_says_that_its_steps_are_fixed(start_server: Start) -> None:
    from dataclasses import replace

    from engine.pattern.card import pattern_card

    server = await start_server(PatternEngine(card=replace(pattern_card(4), steps=2)))
    async with server.client.stream(**MEADOW, num_inference_steps=4) as stream:
        assert (await stream.message("session.warning"))["code"] == "steps_fixed"
        await stream.chunk()


# Refusals before `video.start`


@pytest.mark.parametrize(
    ("fields", "field", "says"),
    [
        ({"prompt": None}, "prompt", "required"),
        ({"prompt": "  "}, "prompt", "must say something"),
        ({"prompt": "x" * 4097}, "prompt", "4097"),
        ({"width": 100}, "width", "multiple of 16; got 100"),
        ({"height": 0}, "height", "multiple of 16; got 0"),
        ({"width": 16000, "height": 16000}, "width", "at most"),
        ({"num_frames": 10}, "num_frames", r"9 \+ 12 n, e.g. 9; got 10"),
        ({"num_frames": 80}, "num_frames", "81"),
        ({"num_inference_steps": 50}, "num_inference_steps", "must be 4"),
        ({"negative_prompt": "blurry"}, "negative_prompt", "must be empty"),
        ({"scene": "../etc/passwd"}, "scene", "must be one of harbour"),
        (
            {"image_reference": {"image_url": "https://example.org/a.png"}},
            "image_reference.image_url",
            "data URL",
        ),
        ({"scene": "harbour", "image_reference": {"image_url": "data:"}}, "scene", "not both"),
        ({"unknown": 1}, "unknown", "unknown field"),
        ({"flow_shift": 0}, "flow_shift", "greater than 0"),
        (
            {"extra_params": {"camera_action_script": [[["w"]]]}},
            "extra_params.camera_action_script[0]",
            "3 lists",
        ),
        ({"session_id": "a/b"}, "session_id", "pattern"),
        ({"token": "t"}, "session_id", "required with `token`"),
    ],
)
async def test_a_bad_start_is_refused_by_name_before_video_start(
    server: Any, fields: dict[str, Any], field: str, says: str
) -> None:
    async with server.client.socket() as stream:
        refused = await refusal(stream, {"type": "session.start", **MEADOW, **fields})
    assert (refused.code, refused.field, refused.close_code) == ("invalid_request", field, 1008)
    import re

    assert re.search(says, refused.message)
    assert server.edge.manager.awake_count == 0


@pytest.mark.parametrize(
    ("message", "code", "close_code"),
    [
        ("hello", "not_json", 1007),
        ("[1, 2]", "not_json", 1007),
        (b"\0\1", "binary_frame", 1003),
        ({"type": "session.ping"}, "invalid_request", 1008),
        ({"type": "session.begin"}, "invalid_request", 1008),
        ('{"type": "session.start", "prompt": "a", "prompt": "b"}', "invalid_request", 1008),
        ('{"type": "session.start", "prompt": "a", "flow_shift": NaN}', "invalid_request", 1008),
        ({"type": "session.start", "prompt": "a", "model": "other"}, "unknown_model", 1008),
        ({"type": "session.start", "session_id": "nobody", "token": "t"}, "unknown_session", 4404),
    ],
)
async def test_what_is_no_start_gets_an_error_and_its_close_code(
    server: Any, message: Any, code: str, close_code: int
) -> None:
    async with server.client.socket() as stream:
        refused = await refusal(stream, message)
    assert (refused.code, refused.close_code) == (code, close_code)


async def test_a_bad_camera_script_is_refused_before_video_start(server: Any) -> None:
    async with server.client.socket() as stream:
        script = {"camera_action_script": [[["w"], ["jump"], []]]}
        refused = await refusal(stream, {"type": "session.start", **MEADOW, "extra_params": script})
    assert (refused.code, refused.close_code) == ("invalid_control", 1008)
    assert "jump" in refused.message


async def test_a_start_that_is_too_large_is_refused(start_server: Start) -> None:
    server = await start_server(start_max_bytes=2048)
    async with server.client.socket() as stream:
        refused = await refusal(stream, {"type": "session.start", "prompt": "x" * 3000})
    assert (refused.code, refused.close_code) == ("message_too_large", 1009)
    async with server.client.socket() as stream:
        await stream.socket.send("x" * 100_000)
        with pytest.raises(ServerError) as closed:
            await stream.receive()
        assert closed.value.close_code == 1009


async def test_a_client_that_does_not_start_in_time_is_let_go(start_server: Start) -> None:
    server = await start_server(start_timeout_s=0.05)
    async with server.client.socket() as stream:
        with pytest.raises(ServerError) as late:
            await stream.receive()
    assert (late.value.code, late.value.close_code) == ("start_timeout", 4408)


async def test_without_room_a_client_is_asked_to_come_back(start_server: Start) -> None:
    server = await start_server(PatternEngine(capacity=1))
    async with server.client.stream(**MEADOW), server.client.socket() as second:
        refused = await refusal(second, {"type": "session.start", **MEADOW})
    assert (refused.code, refused.close_code, refused.retryable) == ("capacity_exceeded", 1013, True)


async def test_an_id_in_use_is_refused(server: Any) -> None:
    async with server.client.stream(**MEADOW, session_id="mine"), server.client.socket() as second:
        refused = await refusal(second, {"type": "session.start", **MEADOW, "session_id": "mine"})
    assert (refused.code, refused.field) == ("session_exists", "session_id")


async def test_a_page_of_another_site_may_not_connect(start_server: Start) -> None:
    server = await start_server(allowed_origins=("https://friend.example",))
    url = "ws" + server.url.removeprefix("http") + SOCKET_PATH
    for origin, welcome in [
        ("https://evil.example", False),
        ("https://friend.example", True),
        (server.url, True),
    ]:
        async with connect(url, additional_headers={"Origin": origin}, proxy=None) as socket:
            stream = Stream(socket)
            if welcome:
                await stream.start(**MEADOW)
            else:
                with pytest.raises(ServerError) as refused:
                    await stream.receive()
                assert (refused.value.code, refused.value.close_code) == ("origin_refused", 1008)


async def test_a_key_is_required_where_keys_are_set(start_server: Start) -> None:
    server = await start_server(api_keys=["right"])
    for key, code in [(None, "unauthorized"), ("wrong", "unauthorized")]:
        async with server.client.socket() as stream:
            shown = {"api_key": key} if key else {}
            refused = await refusal(stream, {"type": "session.start", **MEADOW, **shown})
        assert (refused.code, refused.close_code) == (code, 1008)
    async with server.client.stream(**MEADOW, api_key="right") as stream:
        await stream.chunk()


# What ends a stream, and what does not


@pytest.mark.parametrize(
    ("message", "code", "close_code"), [("hello", "not_json", 1007), (b"\0", "binary_frame", 1003)]
)
async def test_breaking_the_protocol_mid_stream_ends_with_one_error(
    start_server: Start, message: str | bytes, code: str, close_code: int
) -> None:
    server = await start_server(resume_grace_s=0)
    async with server.client.stream(**MEADOW) as stream:
        await stream.chunk()
        await stream.socket.send(message)
        with pytest.raises(ServerError) as ended:
            while True:
                await stream.receive()
    assert (ended.value.code, ended.value.close_code) == (code, close_code)
    await server.until(lambda: not server.edge.manager.awake_count)


async def test_text_that_is_not_utf_8_closes_with_1007(
    start_server: Start, caplog: pytest.LogCaptureFixture
) -> None:
    server = await start_server(resume_grace_s=0)
    async with server.client.stream(**MEADOW) as stream:
        await stream.chunk()
        await stream.socket.send(b"\xff\xfe", text=True)
        with pytest.raises(ServerError) as closed:
            while True:
                await stream.receive()
    assert closed.value.close_code == 1007
    await server.until(lambda: not server.edge.manager.awake_count)
    assert not caplog.records


@pytest.mark.parametrize("after_grace", ["suspend", "close"])
async def test_a_client_that_leaves_takes_its_world_along(start_server: Start, after_grace: str) -> None:
    server = await start_server(resume_grace_s=0, after_grace=after_grace)
    async with server.client.stream(**MEADOW) as stream:
        await stream.chunk()
    await server.until(lambda: not server.edge.manager.awake_count)
    assert server.edge.engine.status().worlds == 0


async def test_one_client_s_bad_messages_harm_no_other_stream(server: Any) -> None:
    async with server.client.stream(**MEADOW, seed=1, num_frames=45) as healthy:
        for message in ("hello", b"\0", '{"type": "session.start", "prompt": NaN}'):
            async with server.client.socket() as stream:
                await refusal(stream, message)
        assert [(await healthy.chunk()).metadata["num_frames"] for _ in range(4)] == [9, 12, 12, 12]
        assert (await healthy.done())["stopped"] is False


async def test_a_client_that_neither_reads_nor_writes_is_let_go(start_server: Start) -> None:
    server = await start_server(stall_timeout_s=0.1, resume_grace_s=0)
    async with server.client.stream(**MEADOW, mode="stepped") as stream:
        with pytest.raises(ServerError) as stalled:
            await stream.receive()
    assert (stalled.value.code, stalled.value.close_code) == ("stalled", 4408)
    await server.until(lambda: not server.edge.manager.awake_count)


async def test_a_reader_that_stopped_is_reaped_with_its_socket(start_server: Start) -> None:
    server = await start_server(stall_timeout_s=0.2, last_word_timeout_s=0.1, resume_grace_s=0)
    url = "ws" + server.url.removeprefix("http") + SOCKET_PATH
    big = {"width": 832, "height": 480, "format": "jpeg", "extra_params": {"pace_to_media_time": False}}
    async with connect(url, max_queue=1, proxy=None, close_timeout=0.1, ping_interval=None) as socket:
        await socket.send(json.dumps({"type": "session.start", **MEADOW, **big}))
        await server.until(lambda: server.edge.manager.awake_count)
        await server.until(lambda: not server.edge.manager.awake_count)
        state = server.server.server_state
        await server.until(lambda: not state.tasks and not state.connections)


class Broken(PatternEngine):
    """Fails at the second chunk."""

    async def run_chunk(
        self, tick: Tick, slack_s: float | None = None
    ) -> AsyncIterator[ChunkReady | ChunkCommitted]:
        if tick.chunk_index == 1:
            raise ChunkFailed("the model raised ValueError")
        async for output in super().run_chunk(tick, slack_s):
            yield output


async def test_a_chunk_that_fails_ends_the_stream_with_one_error(start_server: Start) -> None:
    server = await start_server(Broken())
    async with server.client.stream(**MEADOW) as stream:
        await stream.chunk()
        with pytest.raises(ServerError) as failed:
            await stream.chunk()
    assert failed.value.close_code == 1011
    assert "ValueError" in failed.value.message


async def test_a_server_that_stops_says_so_and_closes_with_1001(start_server: Start) -> None:
    server = await start_server()
    async with server.client.stream(**MEADOW) as stream:
        await stream.chunk()
        draining = asyncio.create_task(server.edge.drain())
        await stream.done()
        await draining
    assert "session.draining" in [message["type"] for message in stream.messages]
    assert stream.socket.close_code == 1001


# Sessions that REST made


async def test_a_session_made_by_rest_is_played_with_its_token(server: Any) -> None:
    made = await server.client.create(**MEADOW, seed=5)
    async with server.client.socket() as stream:
        video = await stream.start(session_id=made["session_id"], token=made["token"])
        assert video["config"] == made["config"]
        assert (await stream.chunk()).metadata["generation_chunk_index"] == 0
        await stream.send("session.stop")
        await stream.done()
    view = (await server.client.call("GET", f"/v1/sessions/{made['session_id']}")).json()
    assert (view["status"], view["streaming"]) == ("active", False)


@pytest.mark.parametrize("token", ["wrong", None])
async def test_another_token_does_not_open_it(server: Any, token: str | None) -> None:
    made = await server.client.create(**MEADOW)
    async with server.client.socket() as stream:
        shown = {"token": token} if token else MEADOW
        refused = await refusal(stream, {"type": "session.start", "session_id": made["session_id"], **shown})
    assert refused.code == ("unauthorized" if token else "session_exists")


async def test_it_keeps_what_it_was_made_with(server: Any) -> None:
    made = await server.client.create(**MEADOW)
    async with server.client.socket() as stream:
        refused = await refusal(
            stream,
            {"type": "session.start", "session_id": made["session_id"], "token": made["token"], "width": 32},
        )
    assert (refused.field, refused.close_code) == ("width", 1008)


async def test_two_sockets_can_not_play_it_at_once(server: Any) -> None:
    made = await server.client.create(**MEADOW)
    bind = {"session_id": made["session_id"], "token": made["token"]}
    async with server.client.stream(**bind) as first, server.client.socket() as second:
        assert (await refusal(second, {"type": "session.start", **bind})).code == "already_playing"
        assert (await first.chunk()).metadata["generation_chunk_index"] == 0
        assert (await first.chunk()).metadata["generation_chunk_index"] == 1
