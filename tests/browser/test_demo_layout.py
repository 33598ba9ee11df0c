"""The page's layout: on phones, while it plays, on the full screen; and the names of its controls."""

from __future__ import annotations

from typing import Any

import pytest

PHONE = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 2,
    "is_mobile": True,
    "has_touch": True,
}


PHONE_LYING = PHONE | {"viewport": {"width": 844, "height": 390}}


SMALL_PHONE = PHONE | {"viewport": {"width": 320, "height": 568}}


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
