"""Load on a running server: users who walk through worlds by socket, and users who manage sessions by REST.

    make load                                   # a pattern server on the loopback, and this against it
    locust -f tests/load/locustfile.py --host http://127.0.0.1:8000 --users 20 --run-time 1m --headless

What the walkers measure stands among locust's statistics, of type `video`, in milliseconds: `TTFC`,
`interval` (steady chunks), `control to frame`, `underrun` (each as long as the viewer stood still),
`RTF x 1000`, and `16 fps` (every steady chunk; a failure is one that missed it, so the failure rate is what
the attainment lacks). Streams are paced to media time, so the RTF of a fast model is close to 1.

A server without room that says so did well: such answers are counted as `no room`. `WORLDLINE_API_KEY` is
shown where it is set. Hosts other than the loopback are refused without `--anywhere`.
"""

from __future__ import annotations

import ipaddress
import json
import os
import random
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from locust import FastHttpUser, User, between, events, task
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.stats import StatsEntry

from tests.load.viewer import Viewer
from tests.load.walk import Walk, WalkEnded

FPS = 16
KEYS = ((), ("w",), ("w", "j"), ("w", "l"), ("a",), ("d",), ("s",), ("i",), ("k",))
API_KEY = os.environ.get("WORLDLINE_API_KEY") or None
HEADERS = {"Authorization": f"Bearer {API_KEY}"} if API_KEY else {}
PROMPT = "a harbour at dusk"


@events.init_command_line_parser.add_listener
def add_options(parser: LocustArgumentParser) -> None:
    """Options of this file, beside locust's own."""
    parser.add_argument("--chunks", type=int, default=20, help="Chunks of a walk.")
    parser.add_argument("--steady-from", type=int, default=6, help="The first chunk that counts as steady.")
    parser.add_argument("--anywhere", action="store_true", help="Allow hosts other than the loopback.")


@events.test_start.add_listener
def require_loopback(environment: Environment, **_: Any) -> None:
    """Load is for one's own machine, unless someone says otherwise."""
    name = urlsplit(environment.host or "").hostname or ""
    if name == "localhost" or environment.parsed_options.anywhere:
        return
    try:
        loopback = ipaddress.ip_address(name).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        sys.exit(f"--host must be on the loopback, or --anywhere given; got {environment.host!r}")


class Walker(User):
    """Plays one world after another, and turns around now and then."""

    weight = 3
    wait_time = between(0.0, 0.5)

    def _tell(self, name: str, milliseconds: float, size: int = 0, error: Exception | None = None) -> None:
        self.environment.events.request.fire(
            request_type="video",
            name=name,
            response_time=milliseconds,
            response_length=size,
            exception=error,
            context={},
        )

    @task
    def walk(self) -> None:
        """One walk, to its end."""
        began = time.perf_counter()
        try:
            with Walk(self.host, API_KEY) as walk:
                self._play(walk)
        except WalkEnded as ended:
            spent = (time.perf_counter() - began) * 1000
            self._tell(
                "no room" if ended.retryable else "walk", spent, error=None if ended.retryable else ended
            )
        except (OSError, TimeoutError) as error:
            self._tell("walk", (time.perf_counter() - began) * 1000, error=error)
        else:
            self._tell("walk", (time.perf_counter() - began) * 1000)

    def _play(self, walk: Walk) -> None:
        options = self.environment.parsed_options
        viewer, asked = Viewer(options.steady_from), time.perf_counter()
        walk.send("session.start", prompt=PROMPT, num_frames=9 + 12 * (options.chunks - 1))
        turn_at, patience = asked + random.uniform(0.3, 1.5), asked + 30 + 3 * options.chunks
        while True:
            now = time.perf_counter()
            if now > patience:
                raise TimeoutError(f"the walk did not end within {patience - asked:.0f} s")
            if now >= turn_at:
                walk.hold(uuid.uuid4().hex, *random.choice(KEYS))
                turn_at = now + random.uniform(0.5, 2.0)
            received = walk.receive(turn_at)
            if received is None:
                continue
            message, size = received
            if message["type"] == "session.done":
                return
            if message["type"] == "video.chunk_metadata":
                self._measure(walk, viewer, message, size, asked)

    def _measure(self, walk: Walk, viewer: Viewer, chunk: Mapping[str, Any], size: int, asked: float) -> None:
        arrived = time.perf_counter()
        seen = viewer.take(arrived, chunk["num_frames"], FPS)
        for seconds in walk.shown(chunk, arrived):
            self._tell("control to frame", seconds * 1000)
        if seen.stalled_s > 0:
            self._tell("underrun", seen.stalled_s * 1000)
        if seen.interval_s is None:
            self._tell("TTFC", (arrived - asked) * 1000, size)
        elif seen.steady and seen.rtf is not None:
            late = None if seen.attained else TimeoutError("a steady chunk took longer than its media time")
            self._tell("interval", seen.interval_s * 1000, size)
            self._tell("RTF x 1000", seen.rtf * 1000)
            self._tell("16 fps", seen.interval_s * 1000, error=late)


class Manager(FastHttpUser):
    """Makes a stepped session, looks at it, moves it, and takes it down again."""

    weight = 1
    wait_time = between(0.2, 1.0)

    @task
    def life(self) -> None:
        """One session's life by REST alone."""
        session = self._create()
        if session is None:
            return
        path, named = f"/v1/sessions/{session}", "/v1/sessions/[id]"
        try:
            for event_id in range(3):
                event = {"event_id": event_id, "prompt": f"{PROMPT}, {event_id}"}
                self.client.post(f"{path}/events", json=event, headers=HEADERS, name=f"{named}/events")
                self.client.post(f"{path}/chunks", headers=HEADERS, name=f"{named}/chunks")
                self.client.get(path, headers=HEADERS, name=named)
            self.client.post(f"{path}/reset", json={"resume": True}, headers=HEADERS, name=f"{named}/reset")
        finally:
            self.client.delete(path, headers=HEADERS, name=named)

    @task
    def look(self) -> None:
        """What an operator and a browser ask."""
        self.client.get("/health")
        self.client.get("/metrics")
        self.client.get("/v1/models", headers=HEADERS)
        self.client.get("/v1/sessions?limit=50", headers=HEADERS, name="/v1/sessions?limit")

    def _create(self) -> str | None:
        with self.client.post(
            "/v1/sessions", json={"prompt": PROMPT, "mode": "stepped"}, headers=HEADERS, catch_response=True
        ) as answer:
            if answer.status_code == 503 and answer.headers.get("Retry-After"):
                answer.success()
                return None
            if answer.status_code != 201:
                answer.failure(f"{answer.status_code} {answer.text}")
                return None
            session: str = answer.json()["session_id"]
            return session


def summary(environment: Environment) -> dict[str, Any]:
    """The walkers' figures. Milliseconds, except shares, ratios and counts."""

    def entry(name: str) -> StatsEntry:
        return environment.stats.get(name, "video")

    def spread(name: str, scale: float = 1.0) -> dict[str, float]:
        found = entry(name)
        return {
            f"p{share:g}": found.get_response_time_percentile(share / 100) / scale for share in (50, 95, 99)
        }

    steady = entry("16 fps").num_requests
    return {
        "walks": entry("walk").num_requests,
        "failed_walks": entry("walk").num_failures,
        "no_room": entry("no room").num_requests,
        "ttfc_ms": spread("TTFC"),
        "interval_ms": spread("interval"),
        "control_to_frame_ms": spread("control to frame"),
        "rtf": spread("RTF x 1000", 1000),
        "steady_chunks": steady,
        "slo_attainment": 1 - entry("16 fps").num_failures / steady if steady else None,
        "underruns": entry("underrun").num_requests,
        "underrun_s": entry("underrun").total_response_time / 1000,
    }


@events.quitting.add_listener
def report(environment: Environment, **_: Any) -> None:
    """One JSON line; a chunk that missed its rate is a figure, everything else that failed is a failure."""
    figures = summary(environment)
    sys.stdout.write(json.dumps({"load": figures}) + "\n")
    entries = environment.stats.entries.values()
    failed = sum(entry.num_failures for entry in entries if (entry.name, entry.method) != ("16 fps", "video"))
    if figures["steady_chunks"] == 0:
        sys.stderr.write("no walk came to its steady chunks: give the run more time\n")
    environment.process_exit_code = 1 if failed or not figures["steady_chunks"] else 0
