"""The demo's pure parts, each alone, in the browser that runs them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

STATIC = Path(__file__).parents[2] / "static"
MODULES = sorted(str(path.relative_to(STATIC)) for path in STATIC.rglob("*.js"))


@pytest.fixture(scope="module")
def run(browser: Any, server: Any) -> Iterator[Any]:
    """Runs a function's body in the page; `load(NAME)` imports one of its modules."""
    page = browser.new_page()
    page.goto(server.url)

    def run(body: str) -> Any:
        load = f"const load = (name) => import(`{server.url}static/${{name}}`);"
        return page.evaluate(f"async () => {{ {load} {body} }}")

    yield run
    page.close()


# Chunks of twelve frames arrive at given times; the page draws sixty times per second.
PLAY = """
const { Pacer } = await load("player/pacer.js");
const play = (arrivals, until, options = {}) => {
  const pacer = new Pacer({ fps: 16, ...options });
  const shown = [];
  let closed = 0, chunk = 0;
  for (let now = 0; now < until; now += 1000 / 60) {
    for (; chunk < arrivals.length && arrivals[chunk] <= now; chunk += 1) {
      for (let index = 0; index < 12; index += 1) {
        pacer.push({ close: () => { closed += 1; }, index: chunk * 12 + index }, chunk, now);
      }
    }
    const due = pacer.take(now);
    if (due) shown.push({ at: now, index: due.frame.index, chunk: due.chunk });
  }
  return { pacer, shown, closed };
};
"""


def test_each_module_is_valid_and_offers_something(run: Any) -> None:
    modules = [name for name in MODULES if name != "main.js"]  # which is the page, and ran already
    offers = run(
        f"const names = {modules};"
        "return Promise.all(names.map(async (name) => Object.keys(await load(name)).length))"
    )
    assert len(modules) > 20
    assert [name for name, count in zip(modules, offers, strict=True) if not count] == []


def test_frames_that_come_in_time_are_all_shown_in_order_at_their_rate(run: Any) -> None:
    shown = run(PLAY + "return play([0, 750, 1500, 2250].map((at) => at + 1), 3200).shown")
    assert [frame["index"] for frame in shown] == list(range(48))
    gaps = [after["at"] - before["at"] for before, after in pairwise(shown)]
    assert 60 < sum(gaps) / len(gaps) < 65
    assert max(gaps) < 85


def test_chunks_that_come_too_early_are_caught_up_with(run: Any) -> None:
    body = PLAY + "return play([0, 100, ...Array.from({ length: 30 }, (_, n) => 850 + n * 750)], 22000).shown"
    shown = run(body)
    early = next(frame["at"] for frame in shown if frame["chunk"] == 2) - 850
    late = next(frame["at"] for frame in shown if frame["chunk"] == 28) - (850 + 26 * 750)
    assert early > 600
    assert late < 250
    assert [frame["index"] for frame in shown] == list(range(len(shown)))


def test_a_stall_is_counted_and_makes_the_cushion_larger(run: Any) -> None:
    result = run(
        PLAY + "const { pacer } = play([0, 750, 2200, 2950], 3600); return [pacer.stalls, pacer.cushion];"
    )
    assert result == [1, 3]


def test_chunks_that_keep_coming_slowly_are_shown_slowly_instead_of_in_fits(run: Any) -> None:
    result = run(
        PLAY
        + """
        const { pacer, shown } = play(Array.from({ length: 16 }, (_, n) => n * 1000), 16000);
        const late = shown.filter(({ at }) => at > 9000);
        return { rate: pacer.rate, gap: Math.max(...late.slice(1).map(({ at }, n) => at - late[n].at)) };
        """
    )
    assert 0.7 < result["rate"] < 0.8
    assert result["gap"] < 180


def test_the_lag_is_bounded_and_dropped_frames_are_closed(run: Any) -> None:
    body = (
        PLAY
        + "const { pacer, closed } = play([0, 1, 2, 3, 4, 5], 100); return [pacer.bufferedSeconds, closed]"
    )
    buffered, closed = run(body)
    assert buffered <= 2.5
    assert closed == 6 * 12 - 40


def test_a_hidden_page_comes_back_near_the_newest_frame(run: Any) -> None:
    result = run(
        """
        const { Pacer } = await load("player/pacer.js");
        const pacer = new Pacer({ fps: 16 });
        let next = 0;
        for (let chunk = 0; chunk < 10; chunk += 1)
          for (let index = 0; index < 12; index += 1) pacer.push({ index: next++ }, chunk, chunk * 750);
        return pacer.take(7500).frame.index;
        """
    )
    assert 120 - 12 <= result < 120


def test_a_reset_forgets_what_waits(run: Any) -> None:
    result = run(
        PLAY
        + """
        const { pacer } = play([0], 300);
        pacer.reset();
        const silent = pacer.take(5000) === undefined && pacer.bufferedSeconds === 0;
        pacer.push({ index: 99 }, 7, 6000);
        return [silent, pacer.take(7000).frame.index, pacer.stalls];
        """
    )
    assert result == [True, 99, 0]


def test_a_key_held_twice_is_sent_once_and_released_with_the_last(run: Any) -> None:
    sent = run(
        """
        const { HeldKeys } = await load("keys.js");
        const sent = [];
        const held = new HeldKeys((actions) => sent.push(actions.join("")));
        held.set("key", ["w"]);
        held.set("pad", ["w", "a"]);
        held.set("key", []);
        held.set("pad", []);
        held.set("pad", []);
        held.set("key", ["l"]);
        held.clear();
        held.clear();
        return sent;
        """
    )
    assert sent == ["w", "wa", "", "l", ""]


def test_a_direction_is_one_key_or_two_on_a_diagonal(run: Any) -> None:
    found = run(
        """
        const { actionsOfVector } = await load("keys.js");
        const of = (x, y) => actionsOfVector(x, y, ["w", "a", "s", "d"], 0.3).join("");
        return [of(0, -1), of(-1, 0), of(0, 1), of(1, 0),
          of(1, -1), of(-1, -1), of(-1, 1), of(1, 1), of(0.2, 0)];
        """
    )
    assert found == ["w", "a", "s", "d", "wd", "wa", "as", "ds", ""]


def test_a_gamepad_moves_with_stick_or_cross_and_looks_with_the_other_stick(run: Any) -> None:
    found = run(
        """
        const { actionsOfGamepad } = await load("gamepad.js");
        const buttons = Array.from({ length: 17 }, (_, index) => ({ pressed: index === 14 }));
        const sticks = { axes: [0, -1, 1, 0], buttons: [] };
        return [actionsOfGamepad(sticks), actionsOfGamepad({ axes: [], buttons })];
        """
    )
    assert found == [["w", "l"], ["a"]]


def test_control_to_photon_counts_from_the_key_to_the_chunk_that_names_it(run: Any) -> None:
    found = run(
        """
        const { ControlLatency } = await load("latency.js");
        const latency = new ControlLatency();
        latency.pressed("one", 100);
        latency.pressed("two", 300);
        latency.arrived({ transport_chunk_index: 5, started_event_ids: ["other"] });
        latency.shown(5, 400);
        latency.arrived({ transport_chunk_index: 6, started_event_ids: ["one", "two"] });
        latency.shown(6, 900);
        latency.shown(7, 1500);
        return [latency.samples, latency.median];
        """
    )
    assert found == [[800, 600], 700]


def test_waiting_before_the_next_try_grows_up_to_a_bound(run: Any) -> None:
    waits = run(
        "const { retryDelay } = await load('retry.js');"
        "return [0, 1, 2, 3, 9].map((attempt) => retryDelay(attempt, 0.5))"
    )
    assert waits == [0.5, 1, 2, 4, 15]


def test_only_an_end_that_may_pass_is_tried_again(run: Any) -> None:
    verdicts = run(
        """
        const { judgeClosing } = await load("retry.js");
        const again = (code, error) => judgeClosing(code, error).again;
        return [again(1006), again(1013), again(1008), again(4409),
          again(1011, { message: "", retryable: false }), again(1013, { message: "", retryable: true })];
        """
    )
    assert verdicts == [True, True, False, False, False, True]


def test_a_long_walk_keeps_a_bounded_even_choice_of_moments_and_the_newest(run: Any) -> None:
    kept = run(
        """
        const { Moments } = await load("moments.js");
        const moments = new Moments();
        const most = [];
        for (let chunk = 0; chunk < 1000; chunk += 1) {
          moments.add({ chunk, prompt: "", picture: null });
          most.push(moments.list.length);
        }
        return [Math.max(...most), moments.list.map(({ chunk }) => chunk)];
        """
    )
    most, chunks = kept
    assert most <= 96 and len(chunks) > 48
    assert chunks[0] == 0 and chunks[-1] == 999
    assert {after - before for before, after in pairwise(chunks[:-1])} == {16}


def test_where_a_walk_went_back_what_was_behind_is_forgotten(run: Any) -> None:
    kept = run(
        """
        const { Moments } = await load("moments.js");
        const moments = new Moments();
        for (const chunk of [0, 1, 2, 3, 4, 2, 3]) moments.add({ chunk, prompt: "", picture: chunk });
        return moments.list.map(({ chunk }) => chunk);
        """
    )
    assert kept == [0, 1, 2, 3]


def test_times_and_places_are_said_as_people_say_them(run: Any) -> None:
    said = run(
        """
        const { clockText, ordinal, secondsBefore } = await load("words.js");
        const config = { first_chunk_frames: 9, chunk_frames: 12, fps: 16 };
        return [
          [0, 59.9, 61, 600].map(clockText),
          [1, 2, 3, 4, 11, 12, 13, 21, 112].map(ordinal),
          [0, 1, 3].map((chunk) => secondsBefore(config, chunk)),
        ];
        """
    )
    assert said[0] == ["0:00", "0:59", "1:01", "10:00"]
    assert said[1] == ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th"]
    assert said[2] == [0, 9 / 16, 33 / 16]


def test_who_does_not_know_the_session_any_more_says_so_in_the_page_s_own_words(run: Any) -> None:
    verdicts = run(
        """
        const { judgeClosing } = await load("retry.js");
        const error = { message: "as written there", retryable: false };
        return [4404, 4410, 4409].map((code) => judgeClosing(code, error));
        """
    )
    assert not any(verdict["again"] or "written" in verdict["text"] for verdict in verdicts)
