from __future__ import annotations

import pytest

from sessions.pacing import Pacer
from sessions.spec import Pacing

CHUNK = 0.75


def play(pacer: Pacer, compute_s: float, chunks: int) -> list[tuple[float, float]]:
    """(begin, shown) of each chunk, where every one takes `compute_s`."""
    now, media, runs = 10.0, 0.0, []
    for _ in range(chunks):
        began = max(now, pacer.due(now))
        now = began + compute_s
        pacer.shown(now, media, CHUNK)
        media += CHUNK
        runs.append((began, now))
    return runs


def test_the_first_chunk_is_due_at_once_and_has_no_slack() -> None:
    pacer = Pacer(Pacing(), CHUNK)
    assert pacer.due(5.0) == 5.0
    assert pacer.slack(5.0) == 0.0


@pytest.mark.parametrize("compute_s", [0.01, 0.15, 0.7])
def test_a_model_faster_than_media_time_is_at_most_the_lead_ahead(compute_s: float) -> None:
    runs = play(Pacer(Pacing(), CHUNK), compute_s, 20)
    first = runs[0][1]
    for index, (began, shown) in enumerate(runs[2:], 2):
        plays = first + index * CHUNK
        assert began == pytest.approx(plays - CHUNK)
        assert shown <= plays  # no underrun
    assert runs[1][0] == first  # the second begins at once: the viewer has one chunk to play


def test_a_longer_lead_is_filled_once_and_then_kept() -> None:
    runs = play(Pacer(Pacing(lead_s=3 * CHUNK), CHUNK), 0.1, 12)
    ahead = [runs[0][1] + index * CHUNK - began for index, (began, _) in enumerate(runs)]
    assert max(ahead) == pytest.approx(3 * CHUNK)
    assert ahead[6:] == pytest.approx([3 * CHUNK] * 6)


def test_a_model_slower_than_media_time_never_waits() -> None:
    runs = play(Pacer(Pacing(), CHUNK), 1.0, 10)
    assert all(runs[i + 1][0] == runs[i][1] for i in range(9))


def test_after_a_stall_the_stream_does_not_run_ahead() -> None:
    pacer = Pacer(Pacing(), CHUNK)
    pacer.shown(10.0, 0.0, CHUNK)
    pacer.shown(15.0, CHUNK, CHUNK)  # 4.25 s late: the viewer stalled, and plays on from here
    assert pacer.slack(15.0) == pytest.approx(CHUNK)
    assert pacer.due(15.0) == pytest.approx(15.0)
    pacer.shown(15.1, 2 * CHUNK, CHUNK)
    assert pacer.due(15.1) == pytest.approx(15.75)


def test_a_lag_that_is_allowed_is_made_good() -> None:
    pacer = Pacer(Pacing(max_lag_s=1.0), CHUNK)
    pacer.shown(10.0, 0.0, CHUNK)
    pacer.shown(15.0, CHUNK, CHUNK)
    assert pacer.slack(15.0) == pytest.approx(CHUNK - 1.0)
    assert pacer.due(15.0) < 15.0


def test_without_pacing_every_chunk_is_due_at_once_and_worlds_take_turns() -> None:
    pacer = Pacer(Pacing(to_media_time=False), CHUNK)
    pacer.shown(10.0, 0.0, CHUNK)
    assert pacer.due(10.0) == 10.0
    assert pacer.slack(10.0) is None


def test_a_restart_forgets_the_viewers_clock() -> None:
    pacer = Pacer(Pacing(), CHUNK)
    pacer.shown(10.0, 5.0, CHUNK)
    pacer.restart()
    assert pacer.due(11.0) == 11.0
    pacer.shown(20.0, 0.0, CHUNK)
    assert pacer.due(20.0) == pytest.approx(20.0)
