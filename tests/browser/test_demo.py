"""The demo in a real browser, against the real server with the pattern engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from demo_page import difference
from PIL import Image

DECODERS = ("webcodecs", "mse", "jpeg")


@pytest.mark.parametrize("decoder", DECODERS)
def test_three_chunks_play_with_each_decoder_and_the_picture_follows_a_key(
    open_demo: Any, decoder: str
) -> None:
    demo = open_demo(f"decoder={decoder}&seed=1")
    demo.play()
    first = demo.picture()
    demo.wait_for_chunks(3)
    demo.wait_until(lambda: demo.number() >= 2, "the third chunk's number in the picture")
    assert demo.part("screen").get_attribute("data-player") == decoder
    assert difference(first, demo.picture()) > 0.2
    before = demo.skyline()
    assert demo.lit() == set()

    demo.page.keyboard.down("KeyL")
    demo.wait_for_lit("l")
    demo.wait_until(lambda: difference(before, demo.skyline()) > 5, "another view after a turn")
    demo.until("document.getElementById('stat-photon').textContent.endsWith(' ms')")
    demo.page.keyboard.up("KeyL")
    demo.wait_for_lit()


def test_without_a_wish_webcodecs_is_chosen(open_demo: Any) -> None:
    demo = open_demo()
    demo.play()
    assert demo.part("screen").get_attribute("data-player") == "webcodecs"
    assert demo.text("stat-format") == "WebCodecs"


def test_a_browser_without_webcodecs_gets_media_source_and_without_both_jpeg(open_demo: Any) -> None:
    demo = open_demo()
    demo.page.evaluate("() => { delete globalThis.VideoDecoder; }")
    demo.play()
    assert demo.part("screen").get_attribute("data-player") == "mse"
    demo = open_demo()
    demo.page.evaluate("() => { delete globalThis.VideoDecoder; MediaSource.isTypeSupported = () => false; }")
    demo.play()
    assert demo.part("screen").get_attribute("data-player") == "jpeg"


def test_a_decoder_that_fails_on_the_way_is_replaced_by_the_next(open_demo: Any) -> None:
    demo = open_demo()
    demo.page.evaluate(
        "() => { VideoDecoder.prototype.decode = () => { throw new Error('broken on purpose'); }; }"
    )
    demo.play(2)
    assert demo.part("screen").get_attribute("data-player") == "mse"


def test_an_unknown_decoder_is_refused_in_clear_text(open_demo: Any) -> None:
    demo = open_demo("decoder=gif")
    demo.act()
    demo.page.get_by_text("this page knows webcodecs, mse, jpeg").wait_for()


def test_keys_are_released_when_the_window_loses_the_focus(open_demo: Any) -> None:
    demo = open_demo()
    demo.play()
    hide = "Object.defineProperty(document, 'hidden', { value: true })"
    for event in (
        "window.dispatchEvent(new Event('blur'))",
        "document.getElementById('prompt').focus()",
        f"{hide}; document.dispatchEvent(new Event('visibilitychange'))",
    ):
        demo.part("screen").focus()
        demo.page.keyboard.down("KeyW")
        demo.page.keyboard.down("KeyJ")
        assert demo.held() == {"w", "j"}
        demo.wait_for_lit("w", "j")
        demo.page.evaluate(f"() => {{ {event}; }}")
        assert demo.held() == set()
        demo.wait_for_lit()
        demo.page.keyboard.up("KeyW")
        demo.page.keyboard.up("KeyJ")


def test_what_is_typed_into_the_prompt_moves_nothing(open_demo: Any) -> None:
    demo = open_demo()
    demo.play()
    demo.page.locator("#prompt").fill("")
    demo.page.locator("#prompt").press_sequentially("walks")
    assert demo.held() == set()
    assert demo.page.locator("#prompt").input_value() == "walks"


def test_the_arrow_keys_look_and_do_not_scroll(open_demo: Any) -> None:
    demo = open_demo(viewport={"width": 1000, "height": 500})
    demo.play()
    demo.page.keyboard.down("ArrowRight")
    demo.page.keyboard.down("ArrowDown")
    demo.wait_for_lit("k", "l")
    assert demo.page.evaluate("window.scrollY") == 0
    demo.page.keyboard.up("ArrowDown")
    demo.page.keyboard.up("ArrowRight")


def test_a_new_prompt_shows_in_the_picture(open_demo: Any) -> None:
    demo = open_demo()
    demo.play()
    before = demo.skyline()
    demo.change_prompt("a violet night")
    demo.wait_until(lambda: difference(before, demo.skyline()) > 3, "another tint")


def test_back_to_start_begins_again_and_keeps_the_new_prompt(open_demo: Any) -> None:
    demo = open_demo()
    demo.play()
    demo.page.locator("#prompt").fill("a violet night")
    demo.page.locator("#prompt-send").click()
    demo.wait_for_prompt()
    demo.wait_until(lambda: demo.number() >= 6, "the seventh chunk")
    demo.page.locator("#reset").click()
    demo.wait_until(lambda: demo.number() < 4, "an early chunk again")
    demo.wait_until(lambda: demo.number() >= 4, "the stream to go on")
    assert demo.page.locator("#prompt").input_value() == "a violet night"


def test_stop_ends_the_walk_and_another_can_begin(open_demo: Any) -> None:
    demo = open_demo()
    demo.play(2)
    demo.page.locator("#stop").click()
    demo.page.get_by_text("The walk has ended").wait_for()
    demo.act()
    demo.wait_for_link("playing")


def test_another_place_starts_another_walk(open_demo: Any) -> None:
    demo = open_demo("seed=1")
    demo.play(2)
    before = demo.skyline()
    demo.page.locator(".scene", has_text="City").click()
    demo.wait_until(lambda: difference(before, demo.skyline()) > 5, "another skyline")
    assert demo.page.locator("#prompt").input_value() == "a city at the horizon"


def test_an_image_of_the_visitor_is_walked_into(open_demo: Any, tmp_path: Path) -> None:
    image = tmp_path / "mine.png"
    Image.new("RGB", (300, 500), (200, 40, 40)).save(image)
    demo = open_demo()
    demo.page.locator("#upload").set_input_files(image)
    demo.page.locator(".scene[data-own]").wait_for()
    assert demo.picture()[32, 48, 0] > 100  # shown at once, before the walk
    demo.play(2)
    red, green, blue = demo.picture()[24:36].reshape(-1, 3).mean(0)
    assert red > 1.5 * max(green, blue)


@pytest.mark.parametrize(
    ("name", "content"), [("notes.txt", b"no image"), ("broken.png", b"\x89PNG nothing")]
)
def test_a_file_that_is_no_image_is_refused_in_clear_text(
    open_demo: Any, tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    demo = open_demo()
    demo.page.locator("#upload").set_input_files(path)
    demo.page.locator("#upload-problem").wait_for()
    assert name in demo.text("upload-problem")


def test_a_short_tap_still_turns_the_view(open_demo: Any) -> None:
    demo = open_demo()
    demo.play(2)
    before = demo.skyline()
    demo.page.keyboard.press("KeyL")
    demo.wait_until(lambda: difference(before, demo.skyline()) > 5, "another view after a tap")


def test_more_key_changes_than_the_server_queues_end_with_what_is_held(open_demo: Any) -> None:
    demo = open_demo()
    demo.play()
    demo.page.evaluate(
        """() => {
          const press = (type, code) => window.dispatchEvent(new KeyboardEvent(type, { code }));
          for (let turn = 0; turn < 30; turn += 1) {
            press("keydown", "KeyJ");
            press("keyup", "KeyJ");
          }
          press("keydown", "KeyW");
        }"""
    )
    demo.wait_for_lit("w")
    assert demo.part("notice").is_hidden(), demo.part("notice").text_content()
