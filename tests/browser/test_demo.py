"""The demo in a real browser, against the real server with the pattern engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from demo_server import Server
from PIL import Image

PHONE = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 2,
    "is_mobile": True,
    "has_touch": True,
}
PHONE_LYING = PHONE | {"viewport": {"width": 844, "height": 390}}
SMALL_PHONE = PHONE | {"viewport": {"width": 320, "height": 568}}
DECODERS = ("webcodecs", "mse", "jpeg")


def difference(one: Any, other: Any) -> float:
    """Mean absolute difference, in grey levels."""
    return float(np.abs(one.astype(np.int16) - other.astype(np.int16)).mean())


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
    demo.page.locator("#prompt").fill("a violet night")
    demo.page.locator("#prompt").press("Enter")
    demo.until("document.getElementById('prompt-status').textContent.includes('in the picture')")
    demo.wait_until(lambda: difference(before, demo.skyline()) > 3, "another tint")


def test_back_to_start_begins_again_and_keeps_the_new_prompt(open_demo: Any) -> None:
    demo = open_demo()
    demo.play()
    demo.page.locator("#prompt").fill("a violet night")
    demo.page.locator("#prompt-send").click()
    demo.until("document.getElementById('prompt-status').textContent.includes('in the picture')")
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
    demo.until("document.getElementById('link').dataset.state === 'playing'")


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


@pytest.mark.parametrize("context", [PHONE, PHONE_LYING, SMALL_PHONE], ids=["upright", "lying", "small"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overflows_on_a_phone(open_demo: Any, context: dict[str, Any], scheme: str) -> None:
    demo = open_demo(**context, color_scheme=scheme)
    assert demo.overflow() <= 0
    demo.play()
    assert demo.overflow() <= 0
    size = context["viewport"]
    for part in (".screen", "#move-pad", "#look-pad"):
        box = demo.page.locator(part).bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= size["width"], part
        assert box["y"] + box["height"] <= size["height"], f"{part} is below the fold"


def test_fingers_on_both_pads_move_and_look(open_demo: Any) -> None:
    demo = open_demo(**PHONE)
    demo.play()
    points = []
    for pad, (x, y) in {"move-pad": (0.5, 0.1), "look-pad": (0.9, 0.5)}.items():
        box = demo.page.locator(f"#{pad}").bounding_box()
        points.append(
            {"x": box["x"] + x * box["width"], "y": box["y"] + y * box["height"], "id": len(points)}
        )
    touch = demo.page.context.new_cdp_session(demo.page)
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": points})
    assert demo.held() == {"w", "l"}
    demo.wait_for_lit("w", "l")
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert demo.held() == set()
    demo.wait_for_lit()


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


def test_the_place_in_the_queue_is_shown(open_demo: Any) -> None:
    def queue_first(page: Any) -> None:
        def route(visitor: Any) -> None:
            server = visitor.connect_to_server()
            visitor.on_message(lambda start: held.append((server, start)))
            visitor.send(json.dumps({"type": "session.queue", "position": 2, "depth": 5}))

        page.route_web_socket("**/v1/realtime/video", route)

    held: list[Any] = []
    demo = open_demo(prepare=queue_first)
    demo.act()
    demo.page.get_by_text("You are 2nd in line").wait_for()
    assert "2nd of 5 in line" in demo.part("veil-text").text_content()
    assert demo.text("stat-queue") == "2 of 5"
    server, start = held[0]
    server.send(start)
    demo.wait_for_chunks(1)


def test_who_comes_to_a_full_server_waits_in_line(open_demo: Any, tmp_path: Path) -> None:
    small = Server(tmp_path, max_sessions="1")
    small.start()
    try:
        first, second = open_demo(url=small.url), open_demo(url=small.url)
        first.play()
        second.act()
        second.page.get_by_text("You are next").wait_for()
        assert "1st of 1 in line" in second.part("veil-text").text_content()
        first.page.locator("#stop").click()
        second.wait_for_chunks(1)
    finally:
        small.kill()


def test_a_server_without_a_line_is_tried_again_until_there_is_room(open_demo: Any, tmp_path: Path) -> None:
    small = Server(tmp_path, max_sessions="1", waiting_max="0")
    small.start()
    try:
        first, second = open_demo(url=small.url), open_demo(url=small.url)
        first.play()
        second.act()
        second.page.get_by_text("Not possible just now").wait_for()
        assert "Trying again in" in second.part("veil-text").text_content()
        first.page.locator("#stop").click()
        first.page.get_by_text("The walk has ended").wait_for()
        second.act()
        second.wait_for_chunks(1)
    finally:
        small.kill()


def test_an_api_key_is_asked_for_where_the_server_wants_one(open_demo: Any, tmp_path: Path) -> None:
    guarded = Server(tmp_path, api_keys='["a long enough key"]')
    guarded.start()
    try:
        demo = open_demo(url=guarded.url)
        demo.page.get_by_text("An API key is needed").wait_for()
        demo.page.locator("#key").fill("a long enough key")
        demo.page.locator("#key").press("Enter")
        demo.page.get_by_role("button", name="Play").click()
        demo.wait_for_chunks(1)
    finally:
        guarded.kill()


def test_the_page_keeps_its_layout_while_it_loads_and_plays(open_demo: Any) -> None:
    demo = open_demo()
    demo.page.evaluate(
        """() => {
          globalThis.shifted = 0;
          const add = (list) => list.getEntries().forEach((entry) => { globalThis.shifted += entry.value; });
          new PerformanceObserver(add).observe({ type: "layout-shift", buffered: true });
        }"""
    )
    demo.play(2)
    demo.page.keyboard.press("KeyW")
    demo.wait_for_chunks(4)
    assert demo.page.evaluate("globalThis.shifted") < 0.01


def test_the_picture_keeps_its_shape_on_the_full_screen(open_demo: Any) -> None:
    demo = open_demo(viewport={"width": 1600, "height": 800})
    demo.page.locator("#fullscreen").click()
    demo.until("document.fullscreenElement !== null")
    demo.until("document.querySelector('canvas').getBoundingClientRect().height === innerHeight")
    box = demo.part("canvas").bounding_box()
    assert box["width"] / box["height"] == pytest.approx(1.5, abs=0.01)


def test_every_control_has_a_name(open_demo: Any) -> None:
    demo = open_demo()
    nameless = demo.page.evaluate(
        """() => [...document.querySelectorAll("button, input, textarea, [tabindex='0']")]
          .filter((part) => !part.closest("[hidden]"))
          .filter((part) => !(part.labels?.length || part.ariaLabel || part.textContent.trim()))
          .map((part) => part.outerHTML)"""
    )
    assert nameless == []
