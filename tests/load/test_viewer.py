"""What arrivals mean to a viewer, on a clock that the test sets."""

import pytest

from tests.load.viewer import Viewer

FPS = 16


def test_a_chunk_that_comes_in_time_attains_its_rate_and_no_one_waits() -> None:
    viewer = Viewer(steady_from=2)
    first = viewer.take(10.0, 9, FPS)
    assert (first.interval_s, first.rtf, first.steady, first.stalled_s) == (None, None, False, 0.0)
    second = viewer.take(10.5, 12, FPS)
    assert second.interval_s == pytest.approx(0.5) and second.rtf == pytest.approx(0.5 / 0.75)
    third = viewer.take(11.25, 12, FPS)
    assert (third.steady, third.attained, third.stalled_s) == (True, True, 0.0)


def test_a_late_chunk_is_an_underrun_of_the_time_that_the_viewer_stood_still() -> None:
    viewer = Viewer(steady_from=0)
    viewer.take(0.0, 9, FPS)
    late = viewer.take(2.0, 12, FPS)
    assert late.stalled_s == pytest.approx(2.0 - 9 / FPS)
    assert not late.attained


def test_after_an_underrun_the_schedule_starts_anew_so_that_it_counts_once() -> None:
    viewer = Viewer(steady_from=0)
    viewer.take(0.0, 9, FPS)
    viewer.take(2.0, 12, FPS)
    again = viewer.take(2.75, 12, FPS)
    assert again.stalled_s == pytest.approx(0.0) and again.attained


def test_a_paced_chunk_that_is_ahead_of_its_time_attains_in_spite_of_a_long_interval() -> None:
    viewer = Viewer(steady_from=0)
    viewer.take(0.0, 9, FPS)
    viewer.take(0.1, 12, FPS)
    paced = viewer.take(0.9, 12, FPS)  # 0.8 s after the one before, but due at 1.3125
    assert paced.interval_s is not None and paced.interval_s > paced.media_s
    assert paced.attained and paced.stalled_s == 0.0


def test_a_viewer_with_a_longer_start_buffer_forgives_more() -> None:
    short, long = Viewer(steady_from=0), Viewer(steady_from=0, start_chunks=2)
    for viewer in (short, long):
        viewer.take(0.0, 9, FPS)
        viewer.take(0.5, 12, FPS)
    assert short.take(1.5, 12, FPS).stalled_s > 0
    assert long.take(1.5, 12, FPS).stalled_s == 0
