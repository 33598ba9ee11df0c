"""What the session layer costs without journal and engine: one event taken, one tick begun, shown, committed."""

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


def round_us() -> float:
    """Microseconds for one event and its tick, averaged over a session of `EVENTS` chunks."""
    protocol = SessionProtocol("session", "world", "a meadow", {"camera": CameraReducer()})
    began = time.perf_counter()
    for event_id in range(EVENTS):
        keys = ["w", "d"] if event_id % 2 else ["w"]
        data = {"mode": "state", "transitions": [{"actions": keys}]}
        protocol.accept(Event(event_id, None, (Control("camera", "lingbot.camera_actions.v1", data),)))
        tick = protocol.begin("request")
        protocol.ready(tick)
        protocol.show()
        protocol.commit(tick)
    return (time.perf_counter() - began) / EVENTS * 1e6


def main() -> None:
    """Print one JSON line: the median over the rounds, and every round."""
    rounds = [round_us() for _ in range(ROUNDS)][1:]
    figures = {
        "bench": "session_layer",
        "event_and_tick_us": round(statistics.median(rounds), 2),
        "target_us": TARGET_US,
        "rounds_us": [round(value, 2) for value in rounds],
        "events_per_round": EVENTS,
    }
    print(json.dumps(figures))  # noqa: T201


if __name__ == "__main__":
    main()
