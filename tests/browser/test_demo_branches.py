"""A branch of a walk, in a pane of its own beside it."""

from __future__ import annotations

from typing import Any

from demo_page import FIRST, SECOND
from demo_server import Server


def test_a_branch_plays_beside_its_original_and_only_the_focused_one_gets_the_keys(open_demo: Any) -> None:
    demo = open_demo("seed=1", fps=16)
    demo.play(5)
    demo.look_back(2)
    demo.page.get_by_role("button", name="Branch off here").click()
    demo.until("document.querySelectorAll('.pane').length === 2")
    demo.wait_until_playing(SECOND)
    assert demo.page.locator(SECOND).get_attribute("data-focused") == "true"
    assert len(set(demo.session_ids())) == 2
    branch = demo.session_ids()[-1]
    assert branch != demo.session_ids()[0]
    places = [place for transport, _, place in demo.chunks() if transport == 0]
    assert places == [0, 2]  # the branch begins with the third chunk

    still = demo.skyline(FIRST)
    before = demo.skyline(SECOND)
    demo.page.keyboard.down("KeyL")
    demo.wait_for_lit("l")
    demo.wait_until(lambda: abs(demo.skyline(SECOND) - before).mean() > 5, "the branch to turn")
    demo.page.keyboard.up("KeyL")
    assert abs(demo.skyline(FIRST) - still).mean() < 3, "the original does not turn"
    assert demo.number(FIRST) > 4

    demo.part("screen", FIRST).click()
    assert demo.page.locator(FIRST).get_attribute("data-focused") == "true"
    demo.page.keyboard.down("KeyJ")
    demo.wait_for_lit("j")
    demo.page.keyboard.up("KeyJ")
    demo.part("close", SECOND).click()
    demo.until("document.querySelectorAll('.pane').length === 1")
    at = demo.number()
    demo.wait_until(lambda: demo.number() > at, "the original to go on")
    demo.look_back(1)
    assert demo.page.locator("#branch").is_enabled()


def test_both_worlds_are_there_after_a_reload(open_demo: Any) -> None:
    demo = open_demo(fps=16)
    demo.play(3)
    demo.look_back(1)
    demo.page.locator("#branch").click()
    demo.until("document.querySelectorAll('.pane').length === 2")
    demo.wait_until_playing(SECOND)
    ids = set(demo.session_ids())
    demo.page.reload()
    demo.page.get_by_role("button", name="Continue your walks").click()
    demo.wait_until_playing(FIRST)
    demo.wait_until_playing(SECOND)
    assert set(demo.session_ids()) == ids
    assert demo.overflow() <= 0


def test_a_branch_that_has_no_room_is_told(open_demo: Any, tmp_path: Any) -> None:
    with Server(tmp_path, max_sessions="1") as small:
        demo = open_demo(url=small.url)
        demo.play(3)
        demo.look_back(1)
        demo.page.locator("#branch").click()
        demo.page.get_by_text("No branch:").wait_for()
        assert demo.page.locator(".pane").count() == 1
