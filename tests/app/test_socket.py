"""Streams over real sockets, as clients see them."""

from typing import Any

import pytest
from socket_helpers import MEADOW, Start, decoded, refusal

from app.client import ServerError
from engine.pattern.engine import PatternEngine

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
