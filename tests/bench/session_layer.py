"""What the session layer costs without journal and engine: one event taken, one tick run.

The event presses keys, the tick goes through the real camera reducer. Processor time is printed beside wall
time: on a machine that does nothing else they are the same, on a busy one only the former says what it costs.
"""

from __future__ import annotations

import json
import statistics
import time

from engine.api import Control
from engine.camera.reducer import CameraReducer
from sessions.events import Event
from sessions.protocol import SessionProtocol

EVENTS = 2000
ROUNDS = 7  # the first is thrown away
TARGET_US = 40.0


def play(events: int = EVENTS) -> None:
    """A session of so many chunks, each with its own event."""
    protocol = SessionProtocol("session", "world", "a meadow", {"camera": CameraReducer()})
    for event_id in range(events):
        keys = ["w", "d"] if event_id % 2 else ["w"]
        data = {"mode": "state", "transitions": [{"actions": keys}]}
        protocol.accept(Event(event_id, None, (Control("camera", "lingbot.camera_actions.v1", data),)))
        tick = protocol.begin("request")
        protocol.ready(tick)
        protocol.show()
        protocol.commit(tick)
    assert protocol.chunk_index == events


def measured() -> tuple[float, float]:
    """Wall and processor time of one event and its tick, in microseconds."""
    wall, processor = time.perf_counter(), time.thread_time()
    play()
    spent = time.perf_counter() - wall, time.thread_time() - processor
    return spent[0] / EVENTS * 1e6, spent[1] / EVENTS * 1e6


def main() -> None:
    """Print one JSON line: medians over the rounds, and every round."""
    rounds = [measured() for _ in range(ROUNDS)][1:]
    walls, processors = zip(*rounds, strict=True)
    figures = {
        "bench": "session_layer",
        "event_and_tick_us": round(statistics.median(walls), 2),
        "processor_us": round(statistics.median(processors), 2),
        "target_us": TARGET_US,
        "rounds_us": [[round(value, 2) for value in pair] for pair in rounds],
        "events_per_round": EVENTS,
    }
    print(json.dumps(figures))  # noqa: T201


if __name__ == "__main__":
    main()
