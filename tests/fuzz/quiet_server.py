"""A pattern server whose log must not tell of any failure of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.load._serving import pattern_server


@contextmanager
def quiet_server(folder: Path) -> Iterator[str]:
    """Its address. Afterwards nothing is left of what was played, and no error or traceback in its log."""
    log = folder / "log"
    # A session whose client left is closed at once, so that none is left over.
    settings = {"WORLDLINE_RESUME_GRACE_S": "0", "WORLDLINE_AFTER_GRACE": "close"}
    with pattern_server(folder / "data", "--log-level", "info", log=log, **settings) as url:
        yield url
        until_empty(url)
    told = [line for line in log.read_text().splitlines() if "Traceback" in line or "ERROR" in line]
    assert not told, (told[:3], log.read_text()[-3000:])


def until_empty(url: str) -> None:
    """Wait until no session is left, and close those that only REST made."""
    deadline = time.monotonic() + 60
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
        while listed := http.get("/v1/sessions").json()["sessions"]:
            assert time.monotonic() < deadline, listed[:3]
            for session in listed:
                assert http.delete(f"/v1/sessions/{session['session_id']}").status_code == 204
        assert http.get("/readyz").status_code == 200
