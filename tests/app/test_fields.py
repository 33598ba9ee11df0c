"""The wire's own names for what the session layer refuses."""

import pytest

from app.controls import ACTIONS, SE3
from app.errors import field_of, message_of
from app.fields import interaction_field, start_field
from app.replies import told
from engine.api import WorldRefused
from sessions.errors import InvalidControl, QueueFull
from sessions.outputs import InteractionRejected

CAMERA = "interaction.event.multi_modal_data.camera"


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ("width", "width"),
        ("image", "image_reference.image_url"),
        ("script.data.frames[7][1]", "extra_params.camera_action_script[2][1][1]"),
        ("script.data.frames", "extra_params.camera_action_script"),
        ("controls[0].data.mode", "controls[0].data.mode"),
    ],
)
def test_what_a_start_holds_has_the_starts_names(field: str, told: str) -> None:
    assert start_field(field) == told


@pytest.mark.parametrize(
    ("field", "schema", "told"),
    [
        ("controls[0].data.transitions[1].actions[0]", ACTIONS, f"{CAMERA}.data.transitions[1].actions[0]"),
        ("controls[0].data.mode", ACTIONS, f"{CAMERA}.data.mode"),
        ("controls[0].data.mode", SE3, f"{CAMERA}.mode"),
        ("controls[0].data.data.rotation", SE3, f"{CAMERA}.data.rotation"),
        ("controls[0].data.transition_chunks", SE3, "interaction.transition_chunks"),
        ("event_id", None, "event_id"),
    ],
)
def test_what_an_interaction_holds_has_its_names(field: str, schema: str | None, told: str) -> None:
    assert interaction_field(field, schema) == told


def test_a_message_names_the_same_field_as_its_field() -> None:
    refused = InvalidControl("data.frames[0][1]: got 'q'", field="script.data.frames[0][1]")
    assert field_of(refused) == "extra_params.camera_action_script[0][0][1]"
    assert message_of(refused) == "extra_params.camera_action_script[0][0][1]: got 'q'"
    rejected = InteractionRejected(
        "e", "invalid_control", "data.mode: got 'x'", "controls[0].data.mode", False, SE3
    )
    reply = told("r", rejected)
    assert (reply["field"], reply["message"]) == (f"{CAMERA}.mode", f"{CAMERA}.mode: got 'x'")


def test_other_messages_stay_as_they_are() -> None:
    assert (
        message_of(WorldRefused("image", "image can't be decoded: cut short"))
        == "image can't be decoded: cut short"
    )
    assert message_of(QueueFull("32 wait: try later")) == "32 wait: try later"
