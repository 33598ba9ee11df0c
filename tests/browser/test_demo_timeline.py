"""The strip of moments: looking back in a walk, and going back."""

from __future__ import annotations

import json
from typing import Any


def test_looking_back_shows_the_moment_and_going_back_goes_on_from_there(open_demo: Any) -> None:
    demo = open_demo()
    demo.play(6)
    demo.look_back(2)
    demo.until("document.querySelector('.pane').dataset.past === 'true'")
    assert demo.number() == 2
    assert "chunk 2" in demo.text("moment-text")
    demo.page.get_by_role("button", name="Go back to here").click()
    demo.until("document.querySelector('.screen').dataset.chunk < 5")
    demo.wait_until_playing()
    demo.wait_until(lambda: demo.number() >= 4, "the walk to go on")
    came = demo.chunks()
    first = next(index for index, (_, epoch, _) in enumerate(came) if epoch == 1)
    assert [place for _, _, place in came[first : first + 3]] == [2, 3, 4]
    assert demo.transports() == list(range(len(came)))  # one session, one stream


def test_going_back_brings_the_prompt_and_the_keys_of_then(open_demo: Any) -> None:
    demo = open_demo()
    demo.play()
    demo.page.keyboard.down("KeyW")
    demo.wait_for_lit("w")
    held = int(demo.part("screen").get_attribute("data-chunk"))
    demo.page.keyboard.up("KeyW")
    demo.wait_for_lit()
    before = demo.page.locator("#prompt").input_value()
    demo.change_prompt("a violet night")
    demo.look_back(held)
    demo.page.locator("#back").click()
    demo.until(f"document.getElementById('prompt').value === {json.dumps(before)}")
    demo.wait_until_playing()  # again: a chunk that was on its way may have been shown before
    assert demo.page.locator("#prompt").input_value() == before
    demo.wait_for_lit()  # W was held then, and is not now


def test_the_timeline_works_by_keyboard_and_a_step_leads_back_to_now(open_demo: Any) -> None:
    demo = open_demo()
    demo.play(3)
    demo.look_back(1)
    slider = demo.page.locator("#moment")
    slider.press("ArrowLeft")
    assert demo.number() == 0
    assert demo.held() == set()
    assert "0:00 of" in slider.get_attribute("aria-valuetext")
    slider.press("Escape")
    assert demo.page.locator("#back").is_hidden()
    demo.look_back(1)
    demo.page.keyboard.down("KeyW")
    assert demo.page.locator("#back").is_hidden()
    demo.wait_for_lit("w")
    demo.page.keyboard.up("KeyW")


def test_a_finger_on_the_strip_looks_back(open_demo: Any) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
    demo = open_demo(**phone)
    demo.play(4)
    box = demo.page.locator("#moment").bounding_box()
    demo.page.touchscreen.tap(box["x"] + 4, box["y"] + box["height"] / 2)
    demo.until("document.querySelector('.pane').dataset.past === 'true'")
    assert demo.number() == 0
    demo.page.locator("#now").tap()
    demo.until("document.querySelector('.pane').dataset.past === 'false'")
    assert demo.number() >= 2
