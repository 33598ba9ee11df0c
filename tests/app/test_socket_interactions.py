"""Interactions over real sockets: taken, shown, rejected by name."""

from typing import Any

import pytest
from socket_helpers import MEADOW, decoded


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
