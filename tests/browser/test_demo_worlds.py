"""Walks that outlive their connection, their page and their server; going back in them, and branching off."""

from __future__ import annotations

import urllib.request
from itertools import pairwise
from typing import Any

import pytest
from cut_line import Line
from demo_page import Demo
from demo_server import Server

FIRST, SECOND = ".pane:nth-child(1)", ".pane:nth-child(2)"


def transports(demo: Demo) -> list[int]:
    return [transport for transport, _, _ in demo.chunks()]


def wait_until_playing(demo: Demo, pane: str = FIRST) -> None:
    demo.until(f"document.querySelector('{pane} .veil').dataset.shown === 'false'")


def session_ids(demo: Demo) -> list[str]:
    return [told["session_id"] for told in demo.heard if told["type"] == "video.start"]


def close_by_hand(server: Server, session: str) -> None:
    request = urllib.request.Request(f"{server.url}v1/sessions/{session}", method="DELETE")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 204


@pytest.mark.parametrize("decoder", ["webcodecs", "mse"])
def test_a_cut_connection_goes_on_behind_the_last_chunk(open_demo: Any, server: Server, decoder: str) -> None:
    with Line(server.port) as line:
        demo = open_demo(f"decoder={decoder}", url=line.url)
        demo.play(2)
        demo.page.keyboard.down("KeyW")
        demo.wait_for_lit("w")
        line.cut()
        demo.until("document.getElementById('link').dataset.state === 'lost'")
        assert "goes on where it was" in demo.part("veil-fine").text_content()
        demo.page.keyboard.up("KeyW")  # which nobody hears
        demo.until("document.getElementById('link').dataset.state === 'playing'")
        demo.wait_for_lit()
        first, again = session_ids(demo)
        assert first == again
        assert transports(demo) == list(range(len(demo.chunks()))), "no gap, no repeat"
        assert [place for _, _, place in demo.chunks()] == transports(demo)
        assert demo.number() >= 2


def test_a_prompt_that_was_lost_with_the_connection_is_sent_again(open_demo: Any, server: Server) -> None:
    def deaf(page: Any) -> None:
        def route(visitor: Any) -> None:
            to = visitor.connect_to_server()

            def pass_on(text: str) -> None:
                if "violet" in text and not lost:
                    lost.append(text)
                    visitor.close(code=1012)
                    to.close()
                else:
                    to.send(text)

            visitor.on_message(pass_on)

        page.route_web_socket("**/v1/realtime/video", route)

    lost: list[str] = []
    demo = open_demo(prepare=deaf)
    demo.play()
    demo.page.locator("#prompt").fill("a violet night")
    demo.page.locator("#prompt").press("Enter")
    demo.until("document.getElementById('prompt-status').textContent.includes('in the picture')")
    assert lost


def test_a_page_that_is_loaded_again_continues_the_walk(open_demo: Any) -> None:
    demo = open_demo("seed=3")
    demo.play(4)
    demo.page.reload()
    demo.page.get_by_role("button", name="Continue your walk").wait_for()
    seen = demo.number()
    assert seen >= 3  # the last picture, out of the tab's storage
    before = len(demo.heard)
    demo.act()
    wait_until_playing(demo)
    demo.until("Number(document.getElementById('moment').max) >= 5")  # earlier moments and new ones
    assert len(set(session_ids(demo))) == 1
    [resumed] = [told for told in demo.heard[before:] if told["type"] == "session.resumed"]
    new = [told["transport_chunk_index"] for told in demo.heard[before:] if "transport_chunk_index" in told]
    assert new[0] == resumed["from_transport_chunk_index"] == seen + 1
    assert all(after == before + 1 for before, after in pairwise(new))


def test_who_does_not_want_to_continue_starts_anew_and_the_old_walk_is_closed(
    open_demo: Any, server: Server
) -> None:
    demo = open_demo()
    demo.play()
    [old] = session_ids(demo)
    demo.page.reload()
    with demo.page.expect_response(f"**/v1/sessions/{old}") as closing:
        demo.page.get_by_role("button", name="Start anew").click()
    assert closing.value.status == 204
    demo.play()
    assert session_ids(demo)[-1] != old


def test_a_walk_outlives_its_server(open_demo: Any, server: Server) -> None:
    demo = open_demo()
    demo.play(2)
    demo.page.locator("#prompt").fill("a violet night")
    demo.page.locator("#prompt").press("Enter")
    demo.until("document.getElementById('prompt-status').textContent.includes('in the picture')")
    server.kill()
    demo.page.get_by_text("Connection lost").first.wait_for()
    server.start()
    demo.until("document.getElementById('link').dataset.state === 'playing'")
    wait_until_playing(demo)
    assert len(set(session_ids(demo))) == 1
    assert transports(demo) == list(range(len(demo.chunks())))
    assert demo.page.locator("#prompt").input_value() == "a violet night"


def test_a_walk_that_is_gone_is_told_and_another_offered(open_demo: Any, server: Server) -> None:
    demo = open_demo()
    demo.play()
    close_by_hand(server, session_ids(demo)[0])
    demo.page.get_by_text("The walk has ended").wait_for()
    demo.act()
    demo.until("document.getElementById('link').dataset.state === 'playing'")
    demo.wait_for_chunks(1)
    gone = session_ids(demo)[-1]
    demo.page.evaluate("window.dispatchEvent(new Event('pagehide'))")
    saved = demo.page.evaluate("sessionStorage.getItem('worldline.walks')")
    close_by_hand(server, gone)
    demo.page.get_by_text("The walk has ended").wait_for()
    demo.page.add_init_script(f"sessionStorage.setItem('worldline.walks', {saved!r})")
    demo.page.reload()
    demo.page.get_by_role("button", name="Continue your walk").click()
    demo.page.get_by_text("This walk is gone").wait_for()
    demo.page.get_by_role("button", name="New walk").click()
    demo.wait_for_chunks(1)
    assert session_ids(demo)[-1] != gone


def test_another_page_takes_a_walk_over_and_it_can_be_had_back(open_demo: Any) -> None:
    demo = open_demo()
    demo.play()
    saved = demo.page.evaluate("sessionStorage.getItem('worldline.walks')")
    init = f"sessionStorage.setItem('worldline.walks', {saved!r})"
    other = open_demo(prepare=lambda page: page.add_init_script(init))
    other.act()
    demo.page.get_by_text("Your walk goes on elsewhere").wait_for()
    wait_until_playing(other)
    demo.page.get_by_role("button", name="Continue it here").click()
    wait_until_playing(demo)
    other.page.get_by_text("Your walk goes on elsewhere").wait_for()


def test_looking_back_shows_the_moment_and_going_back_goes_on_from_there(open_demo: Any) -> None:
    demo = open_demo()
    demo.play(6)
    demo.look_back(2)
    demo.until("document.querySelector('.pane').dataset.past === 'true'")
    assert demo.number() == 2
    assert "chunk 2" in demo.text("moment-text")
    demo.page.get_by_role("button", name="Go back to here").click()
    demo.until("document.querySelector('.screen').dataset.chunk < 5")
    wait_until_playing(demo)
    demo.wait_until(lambda: demo.number() >= 4, "the walk to go on")
    came = demo.chunks()
    first = next(index for index, (_, epoch, _) in enumerate(came) if epoch == 1)
    assert [place for _, _, place in came[first : first + 3]] == [2, 3, 4]
    assert transports(demo) == list(range(len(came)))  # one session, one stream


def test_going_back_brings_the_prompt_and_the_keys_of_then(open_demo: Any) -> None:
    demo = open_demo()
    demo.play()
    demo.page.keyboard.down("KeyW")
    demo.wait_for_lit("w")
    held = int(demo.part("screen").get_attribute("data-chunk"))
    demo.page.keyboard.up("KeyW")
    demo.wait_for_lit()
    before = demo.page.locator("#prompt").input_value()
    demo.page.locator("#prompt").fill("a violet night")
    demo.page.locator("#prompt").press("Enter")
    demo.until("document.getElementById('prompt-status').textContent.includes('in the picture')")
    demo.look_back(held)
    demo.page.locator("#back").click()
    wait_until_playing(demo)
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


def test_a_branch_plays_beside_its_original_and_only_the_focused_one_gets_the_keys(open_demo: Any) -> None:
    demo = open_demo("seed=1", fps=16)
    demo.play(5)
    demo.look_back(2)
    demo.page.get_by_role("button", name="Branch off here").click()
    demo.until("document.querySelectorAll('.pane').length === 2")
    wait_until_playing(demo, SECOND)
    assert demo.page.locator(SECOND).get_attribute("data-focused") == "true"
    assert len(set(session_ids(demo))) == 2
    branch = [told["session_id"] for told in demo.heard if told["type"] == "video.start"][-1]
    assert branch != session_ids(demo)[0]
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
    wait_until_playing(demo, SECOND)
    ids = set(session_ids(demo))
    demo.page.reload()
    demo.page.get_by_role("button", name="Continue your walks").click()
    wait_until_playing(demo, FIRST)
    wait_until_playing(demo, SECOND)
    assert set(session_ids(demo)) == ids
    assert demo.overflow() <= 0


def test_a_branch_that_has_no_room_is_told(open_demo: Any, tmp_path: Any) -> None:
    small = Server(tmp_path, max_sessions="1")
    small.start()
    try:
        demo = open_demo(url=small.url)
        demo.play(3)
        demo.look_back(1)
        demo.page.locator("#branch").click()
        demo.page.get_by_text("No branch:").wait_for()
        assert demo.page.locator(".pane").count() == 1
    finally:
        small.kill()


def test_what_the_server_says_on_the_way_is_told_in_plain_words(open_demo: Any) -> None:
    def tell(page: Any) -> None:
        def route(visitor: Any) -> None:
            lines.append(visitor)
            visitor.connect_to_server()

        page.route_web_socket("**/v1/realtime/video", route)

    lines: list[Any] = []
    demo = open_demo(prepare=tell)
    demo.play()
    for message, told in (
        ('{"type": "session.draining", "grace_seconds": 10}', "restarts within 10 s"),
        ('{"type": "session.evicted"}', "put aside"),
        ('{"type": "session.warning", "code": "steps_fixed", "message": "four steps"}', "Four steps."),
    ):
        lines[0].send(message)
        demo.until(f"document.querySelector('.notice').textContent.includes('{told}')")
