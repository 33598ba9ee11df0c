import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.event_request import EventRequest
from app.message import validated
from app.refusals import InvalidField
from app.wire import MESSAGES, Interaction, Start, claimed, parse_message


def start(**fields: object) -> str:
    return json.dumps({"type": "session.start", "prompt": "a meadow", **fields})


def interaction(**fields: object) -> str:
    return json.dumps({"type": "session.interaction", "interaction": fields})


def test_a_start_needs_little() -> None:
    message = parse_message(start())
    assert isinstance(message, Start)
    assert (message.prompt, message.format, message.mode, message.width) == (
        "a meadow",
        "m4s",
        "continuous",
        None,
    )


def test_an_interaction_carries_a_camera() -> None:
    message = parse_message(
        interaction(event_id="e1", event={"multi_modal_data": {"camera": {"mode": "velocity"}}})
    )
    assert isinstance(message, Interaction)
    assert message.interaction.event.multi_modal_data is not None
    assert message.interaction.event.multi_modal_data.camera == {"mode": "velocity"}


BARE = ("cancel", "close", "ping", "reset", "stop")
FULL = ("ack", "attach", "interaction", "resume", "rewind", "start")


def test_every_message_is_known_as_bare_or_not() -> None:
    assert set(MESSAGES) == {f"session.{kind}" for kind in (*BARE, *FULL)}


@pytest.mark.parametrize("kind", [f"session.{kind}" for kind in BARE])
def test_a_bare_message_is_its_type(kind: str) -> None:
    assert parse_message(json.dumps({"type": kind})).type == kind


@pytest.mark.parametrize(
    ("fields", "field", "says"),
    [
        ({"prompt": 3}, "prompt", "valid string; got 3"),
        ({"width": "64"}, "width", "valid integer; got '64'"),
        ({"width": 64.5}, "width", "valid integer; got 64.5"),
        ({"width": -1}, "width", "greater than or equal to 0; got -1"),
        ({"fps": 0}, "fps", "greater than or equal to 1; got 0"),
        ({"fps": True}, "fps", "valid integer; got True"),
        ({"num_frames": 0}, "num_frames", "greater than or equal to 1"),
        ({"seed": -1}, "seed", "got -1"),
        ({"format": "gif"}, "format", "'m4s', 'annexb' or 'jpeg'; got 'gif'"),
        ({"mode": "fast"}, "mode", "'continuous' or 'stepped'"),
        ({"session_id": "../etc"}, "session_id", r"got '\.\./etc'"),
        ({"session_id": "a\n"}, "session_id", "pattern"),
        ({"wdth": 64}, "wdth", "unknown field; allowed: .*width"),
        ({"extra_params": {"pace": 1}}, "extra_params.pace", "unknown field; allowed: camera_action_script"),
        ({"image_reference": {}}, "image_reference.image_url", "required"),
        (
            {"extra_params": {"camera_action_script": [["w", 3]]}},
            "extra_params.camera_action_script[0][0]",
            "list",
        ),
        ({"extra_params": {"pacing_lead_seconds": -1}}, "extra_params.pacing_lead_seconds", "got -1"),
    ],
)
def test_a_bad_start_names_the_field_what_came_and_what_is_allowed(
    fields: dict[str, object], field: str, says: str
) -> None:
    with pytest.raises(InvalidField, match=says) as refused:
        parse_message(start(**fields))
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("fields", "field", "says"),
    [
        ({}, "interaction.event", "required"),
        ({"event": {}}, "interaction.event", "needs a `prompt` or `multi_modal_data.camera`"),
        ({"event": {"prompt": "a"}, "event_id": ""}, "interaction.event_id", "at least 1 character"),
        ({"event": {"prompt": "a"}, "transition_chunks": -1}, "interaction.transition_chunks", "got -1"),
        (
            {"event": {"prompt": "a", "audio": 1}},
            "interaction.event.audio",
            "allowed: multi_modal_data, prompt",
        ),
    ],
)
def test_a_bad_interaction_names_the_field(fields: dict[str, object], field: str, says: str) -> None:
    with pytest.raises(InvalidField, match=says) as refused:
        parse_message(interaction(**fields))
    assert refused.value.field == field


def test_an_unknown_type_is_refused_with_those_allowed() -> None:
    with pytest.raises(InvalidField, match=r"session\.start.*got 'session\.begin'"):
        parse_message('{"type": "session.begin"}')


def test_a_secret_is_not_repeated_in_a_refusal() -> None:
    with pytest.raises(InvalidField) as refused:
        parse_message(start(token="s" * 600))
    assert "sss" not in str(refused.value)


def test_what_came_is_shortened() -> None:
    with pytest.raises(InvalidField) as refused:
        parse_message(start(scene="x" * 10_000))
    assert len(str(refused.value)) < 300


def test_a_rest_event_takes_one_form_of_two() -> None:
    assert validated(EventRequest, {"event_id": 1, "prompt": "a"}).prompt == "a"
    assert validated(EventRequest, {"event_id": 1, "event": {"prompt": "a"}}).event is not None
    with pytest.raises(InvalidField, match="not both"):
        validated(EventRequest, {"event_id": 1, "prompt": "a", "event": {"prompt": "b"}})
    with pytest.raises(InvalidField, match="needs an `event`"):
        validated(EventRequest, {"event_id": 1})


def test_a_rest_control_names_track_schema_and_data() -> None:
    control = {"track": "camera", "schema": "lingbot.camera_actions.v1", "data": {"mode": "state"}}
    event = validated(EventRequest, {"event_id": 1, "controls": [control]})
    assert event.controls is not None
    assert event.controls[0].schema_ == "lingbot.camera_actions.v1"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = sorted({name for kind in MESSAGES.values() for name in kind.model_fields} - {"type"})


@given(st.sampled_from(sorted(MESSAGES)), st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=3))
def test_any_message_is_taken_or_refused_by_name(kind: str, fields: dict[str, object]) -> None:
    try:
        message = parse_message(json.dumps({"type": kind, **fields}))
    except InvalidField as refused:
        assert refused.field and len(str(refused)) < 1000
    else:
        assert message.type == kind


@given(st.text(max_size=40) | JSON.map(json.dumps))
def test_what_a_refused_message_claims_to_be_is_found_without_a_stumble(text: str) -> None:
    kind, name = claimed(text)
    assert isinstance(kind, str) and (name is None or isinstance(name, str))
