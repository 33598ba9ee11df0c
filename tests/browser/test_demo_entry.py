"""Who can not come in at once: the line, a full server, a server that wants a key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from demo_server import Server


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
    with Server(tmp_path, max_sessions="1") as small:
        first, second = open_demo(url=small.url), open_demo(url=small.url)
        first.play()
        second.act()
        second.page.get_by_text("You are next").wait_for()
        assert "1st of 1 in line" in second.part("veil-text").text_content()
        first.page.locator("#stop").click()
        second.wait_for_chunks(1)


def test_a_server_without_a_line_is_tried_again_until_there_is_room(open_demo: Any, tmp_path: Path) -> None:
    with Server(tmp_path, max_sessions="1", waiting_max="0") as small:
        first, second = open_demo(url=small.url), open_demo(url=small.url)
        first.play()
        second.act()
        second.page.get_by_text("Not possible just now").wait_for()
        second.page.get_by_text("Trying again in").wait_for()
        first.page.locator("#stop").click()
        first.page.get_by_text("The walk has ended").wait_for()
        second.part("veil-action").dispatch_event("click")  # which is gone where the page was faster
        second.wait_for_chunks(1)


def test_an_api_key_is_asked_for_where_the_server_wants_one(open_demo: Any, tmp_path: Path) -> None:
    with Server(tmp_path, api_keys='["a long enough key"]') as guarded:
        demo = open_demo(url=guarded.url)
        demo.page.get_by_text("An API key is needed").wait_for()
        demo.page.locator("#key").fill("a long enough key")
        demo.page.locator("#key").press("Enter")
        demo.page.get_by_role("button", name="Play").click()
        demo.wait_for_chunks(1)
