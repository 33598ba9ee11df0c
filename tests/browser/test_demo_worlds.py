"""Walks that outlive their connection, their page and their server."""

from __future__ import annotations

import urllib.request
from itertools import pairwise
from typing import Any

import pytest
from cut_line import Line
from demo_server import Server


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
        demo.wait_for_link("lost")
        assert "goes on where it was" in demo.part("veil-fine").text_content()
        demo.page.keyboard.up("KeyW")  # which nobody hears
        demo.wait_for_link("playing")
        demo.wait_for_lit()
        first, again = demo.session_ids()
        assert first == again
        assert demo.transports() == list(range(len(demo.chunks()))), "no gap, no repeat"
        assert [place for _, _, place in demo.chunks()] == demo.transports()
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
    demo.change_prompt("a violet night")
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
    demo.wait_until_playing()
    demo.until("Number(document.getElementById('moment').max) >= 5")  # earlier moments and new ones
    assert len(set(demo.session_ids())) == 1
    [resumed] = [told for told in demo.heard[before:] if told["type"] == "session.resumed"]
    new = [told["transport_chunk_index"] for told in demo.heard[before:] if "transport_chunk_index" in told]
    assert new[0] == resumed["from_transport_chunk_index"] == seen + 1
    assert all(after == before + 1 for before, after in pairwise(new))


def test_who_does_not_want_to_continue_starts_anew_and_the_old_walk_is_closed(
    open_demo: Any, server: Server
) -> None:
    demo = open_demo()
    demo.play()
    [old] = demo.session_ids()
    demo.page.reload()
    with demo.page.expect_response(f"**/v1/sessions/{old}") as closing:
        demo.page.get_by_role("button", name="Start anew").click()
    assert closing.value.status == 204
    demo.play()
    assert demo.session_ids()[-1] != old


def test_a_walk_outlives_its_server(open_demo: Any, server: Server) -> None:
    demo = open_demo()
    demo.play(2)
    demo.change_prompt("a violet night")
    server.kill()
    demo.page.get_by_text("Connection lost").first.wait_for()
    server.start()
    demo.wait_for_link("playing")
    demo.wait_until_playing()
    assert len(set(demo.session_ids())) == 1
    assert demo.transports() == list(range(len(demo.chunks())))
    assert demo.page.locator("#prompt").input_value() == "a violet night"


def test_a_walk_that_is_gone_is_told_and_another_offered(open_demo: Any, server: Server) -> None:
    demo = open_demo()
    demo.play()
    close_by_hand(server, demo.session_ids()[0])
    demo.page.get_by_text("The walk has ended").wait_for()
    demo.act()
    demo.wait_for_link("playing")
    demo.wait_for_chunks(1)
    gone = demo.session_ids()[-1]
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
    assert demo.session_ids()[-1] != gone


def test_another_page_takes_a_walk_over_and_it_can_be_had_back(open_demo: Any) -> None:
    demo = open_demo()
    demo.play()
    saved = demo.page.evaluate("sessionStorage.getItem('worldline.walks')")
    init = f"sessionStorage.setItem('worldline.walks', {saved!r})"
    other = open_demo(prepare=lambda page: page.add_init_script(init))
    other.act()
    demo.page.get_by_text("Your walk goes on elsewhere").wait_for()
    other.wait_until_playing()
    demo.page.get_by_role("button", name="Continue it here").click()
    demo.wait_until_playing()
    other.page.get_by_text("Your walk goes on elsewhere").wait_for()


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
