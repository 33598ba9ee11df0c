"""Whose turn it is."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.api import OpenWorld, Tick
from engine.worker.messages import Close, JobRequest, Open, Reset, Run
from engine.worker.schedule import LATEST_S, Job, Schedule


def chunk(world: str, arrived: float = 0.0, slack_s: float | None = None, index: int = 0) -> Job:
    return Job(Run(0, Tick("s", world, 0, "r", index, (), "p"), slack_s), arrived)


def control(request: JobRequest, arrived: float = 0.0) -> Job:
    return Job(request, arrived)


def opened(world: str, arrived: float = 0.0) -> Job:
    return control(Open(0, OpenWorld(world, "p", 16, 16, 16, 0, scene="plain")), arrived)


def served(schedule: Schedule, count: int, now: float = 10.0) -> list[str]:
    """Whom the schedule serves, each job taking a second."""
    order = []
    for _ in range(count):
        job = schedule.take(now)
        assert job is not None
        order.append(job.world)
        now += 1.0
        schedule.release(job.world)
    return order


def test_the_earliest_deadline_goes_first() -> None:
    schedule = Schedule()
    for world, slack in (("relaxed", 1.5), ("urgent", 0.1), ("late", -0.5), ("near", 0.7)):
        schedule.add(chunk(world, slack_s=slack))
    assert served(schedule, 4) == ["late", "urgent", "near", "relaxed"]


def test_a_deadline_counts_from_arrival() -> None:
    schedule = Schedule()
    schedule.add(chunk("early", arrived=0.0, slack_s=1.0))
    schedule.add(chunk("later", arrived=2.0, slack_s=0.0))
    assert served(schedule, 2) == ["early", "later"]


def test_without_slack_worlds_take_turns() -> None:
    schedule = Schedule()
    for index in range(3):
        schedule.add(chunk("greedy", index=index))
    schedule.add(chunk("modest", arrived=0.1))
    schedule.add(chunk("shy", arrived=0.2))
    assert served(schedule, 5) == ["greedy", "modest", "shy", "greedy", "greedy"]


def test_a_hopelessly_late_viewer_does_not_starve_the_others() -> None:
    schedule = Schedule()
    schedule.add(chunk("patient", arrived=0.0, slack_s=0.0))
    for index in range(10):
        schedule.add(chunk("hopeless", arrived=0.0, slack_s=-1000.0, index=index))
    order = served(schedule, 11, now=0.0)
    assert order.index("patient") <= LATEST_S + 1


def test_controls_go_before_chunks_in_their_order_of_arrival() -> None:
    schedule = Schedule()
    schedule.add(chunk("a", slack_s=-5.0))
    schedule.add(control(Close(0, "b"), arrived=2.0))
    schedule.add(opened("c", arrived=1.0))
    assert served(schedule, 3) == ["c", "b", "a"]


def test_the_jobs_of_one_world_keep_their_order() -> None:
    schedule = Schedule()
    jobs = [chunk("a", slack_s=9.0), control(Reset(0, "a")), chunk("a", slack_s=-9.0), control(Close(0, "a"))]
    for job in jobs:
        schedule.add(job)
    taken = []
    while (job := schedule.take(0.0)) is not None:
        taken.append(job)
        schedule.release("a")
    assert taken == jobs


def test_a_busy_world_waits_and_the_others_do_not() -> None:
    schedule = Schedule()
    schedule.add(chunk("a", slack_s=-1.0))
    schedule.add(chunk("a", slack_s=-1.0, index=1))
    schedule.add(chunk("b", slack_s=5.0))
    first, second = schedule.take(0.0), schedule.take(0.0)
    assert first is not None and first.world == "a"
    assert second is not None and second.world == "b"
    assert schedule.take(0.0) is None
    schedule.release("a")
    third = schedule.take(0.0)
    assert third is not None and third.world == "a"


def test_a_waiting_job_can_be_withdrawn_and_a_running_one_can_not() -> None:
    schedule = Schedule()
    running, waiting = chunk("a"), chunk("a", index=1)
    schedule.add(running)
    schedule.add(waiting)
    assert schedule.take(0.0) is running
    assert not schedule.withdraw(running)
    assert schedule.withdraw(waiting)
    assert schedule.depth() == 0


def test_a_world_that_is_gone_leaves_nothing_behind() -> None:
    schedule = Schedule()
    schedule.add(control(Close(0, "a")))
    schedule.take(0.0)
    schedule.release("a", gone=True)
    with pytest.raises(KeyError):
        schedule.release("a")


JOBS = st.tuples(
    st.sampled_from("abcd"),
    st.sampled_from(["chunk", "reset"]),
    st.one_of(st.none(), st.floats(-5, 5)),
    st.floats(0, 3),  # seconds since the job before
)


@given(st.lists(JOBS, max_size=40), st.randoms(use_true_random=False))
def test_any_mixture_is_served_once_in_order_and_one_job_per_world(
    asked: list[tuple[str, str, float | None, float]], random: Random
) -> None:
    schedule, now, running, added, taken = Schedule(), 0.0, list[str](), list[Job](), list[Job]()
    pending = list(asked)
    while pending or schedule.depth() or running:
        step = random.choice(["add", "take", "release"])
        if step == "add" and pending:
            world, kind, slack, later = pending.pop(0)
            now += later
            job = chunk(world, now, slack) if kind == "chunk" else control(Reset(0, world), now)
            added.append(job)
            schedule.add(job)
        elif step == "take" and (job := schedule.take(now)) is not None:
            assert job.world not in running
            running.append(job.world)
            taken.append(job)
        elif step == "release" and running:
            schedule.release(running.pop(random.randrange(len(running))))
    for world in "abcd":
        assert [job for job in taken if job.world == world] == [job for job in added if job.world == world]
