"""200 sockets, 20 of them streaming: the server's loop is in time, and nobody's picture stands still."""

import json

import pytest

from tests.bench.full_load import figures


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_under_full_load_health_answers_in_time_and_no_viewer_waits() -> None:
    found = figures()
    print(json.dumps(found))  # noqa: T201
    assert found["health_p99_ms"] < found["target_health_p99_ms"]
    assert found["loop_lag_p99_at_most_ms"] <= found["target_lag_p99_ms"]
    assert found["underruns"] == 0
