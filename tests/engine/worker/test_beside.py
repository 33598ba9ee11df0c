"""The thread beside the device's does what it is given, in order, whatever becomes of it."""

from __future__ import annotations

import logging
import threading

import pytest

from engine.worker.beside import Beside


def test_calls_are_made_in_order_on_one_other_thread_and_all_before_the_end() -> None:
    beside, made = Beside("encoder"), []
    for number in range(100):
        beside.submit(lambda number=number: made.append((number, threading.current_thread())))  # type: ignore[misc]
    beside.start()
    beside.finish()
    assert made == [(number, beside) for number in range(100)]
    assert not beside.is_alive()


def test_a_call_that_breaks_is_logged_and_the_next_one_is_made(caplog: pytest.LogCaptureFixture) -> None:
    beside, made = Beside("encoder"), []

    def broken() -> None:
        raise RuntimeError("no such codec")

    beside.start()
    beside.submit(broken)
    beside.submit(lambda: made.append(1))
    beside.finish()
    assert made == [1]
    [record] = [record for record in caplog.records if record.name == "engine.worker.beside"]
    assert record.levelno == logging.ERROR and "no such codec" in caplog.text
