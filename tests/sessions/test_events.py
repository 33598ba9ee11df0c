from __future__ import annotations

import pytest
from session_fixtures import keys

from engine.api import Control
from sessions.entry import make_entry, payload_digest
from sessions.errors import InvalidEvent
from sessions.events import Event, frozen_event


@pytest.mark.parametrize(
    ("event", "field"),
    [
        (Event(1), "prompt"),
        (Event(-1, "rain"), "event_id"),
        (Event(True, "rain"), "event_id"),
        (Event(1.0, "rain"), "event_id"),
        (Event(2**53, "rain"), "event_id"),
        (Event(1, "\ud800"), "prompt"),
        (Event(1, 5), "prompt"),
        (Event(1, None, (keys("w"), keys("d"))), "controls"),
        (
            Event(1, None, (Control("camera", "keys.v1", {"keys": [float("nan")]}),)),
            "controls[0].data.keys[0]",
        ),
    ],
)
def test_an_event_of_a_wrong_shape_is_refused_with_its_field(event: Event, field: str) -> None:
    with pytest.raises(InvalidEvent) as refused:
        frozen_event(event)
    assert refused.value.field == field


def test_a_frozen_event_does_not_follow_its_callers_changes() -> None:
    control = keys("w")
    frozen = frozen_event(Event(1, None, (control,)))
    control.data["keys"].append("d")
    assert frozen.controls[0].data == {"keys": ("w",)}


def test_the_payloads_digest_ignores_the_id_and_the_order_of_controls() -> None:
    camera, light = keys("w"), Control("light", "v1", 1)
    one, other = Event(1, "rain", (camera, light)), Event(2, "rain", (light, camera))
    assert payload_digest(frozen_event(one)) == payload_digest(frozen_event(other))
    assert payload_digest(Event(1, "rain")) != payload_digest(Event(1, "snow"))


@pytest.mark.parametrize("name", ["", "x" * 257, "\ud800"])
def test_a_name_is_unicode_text_of_1_to_256_characters(name: str) -> None:
    with pytest.raises(InvalidEvent) as refused:
        make_entry(Event(1, "rain"), name)
    assert refused.value.field == "event_id"


def test_an_entry_is_known_by_its_name_or_by_its_number() -> None:
    assert make_entry(Event(7, "rain"), "evt-a").label == "evt-a"
    assert make_entry(Event(7, "rain")).label == "7"
