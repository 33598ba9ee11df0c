from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from engine.sampler.probes import probes
from engine.sampler.schedule import LINGBOT_LABELS, Schedule, ScheduleRefused, Step, shifted


def test_lingbots_labels_shifted_by_five_are_its_four_noise_levels() -> None:
    schedule = Schedule.from_json({})
    assert [step.sigma for step in schedule.steps] == pytest.approx([1, 0.9375, 0.83333333, 0.625])
    assert schedule.timesteps == tuple(1000 * step.sigma for step in schedule.steps)


def test_a_session_may_shift_the_labels_otherwise() -> None:
    schedule = Schedule.from_json({"prediction_type": "sample"}).shifted(1.0)
    assert schedule.timesteps == LINGBOT_LABELS
    assert schedule.prediction_type == "sample"


def test_fixed_noise_levels_can_not_be_shifted() -> None:
    with pytest.raises(ScheduleRefused, match="flow_shift"):
        Schedule.from_json({"sigmas": [1.0, 0.5]}).shifted(3.0)


@pytest.mark.parametrize(
    "data",
    [{}, {"sigmas": [1.0, 0.6], "prediction_type": "sample"}, {"denoising_steps": [900], "flow_shift": 2}],
)
def test_a_schedule_survives_its_json(data: dict[str, object]) -> None:
    schedule = Schedule.from_json(data)
    assert Schedule.from_json(schedule.to_json()) == schedule


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"sigmas": []}, "sigmas"),
        ({"sigmas": [0.5, 0.5]}, "sigmas"),
        ({"sigmas": [0.5, 0.8]}, "sigmas"),
        ({"sigmas": [1.5, 0.8]}, "sigmas"),
        ({"sigmas": [1.0, 0.0]}, "sigmas"),
        ({"sigmas": [float("nan")]}, "sigmas"),
        ({"sigmas": "1, 0.5"}, "sigmas"),
        ({"denoising_steps": [True]}, "denoising_steps"),
        ({"flow_shift": 0}, "flow_shift"),
        ({"flow_shift": "5"}, "flow_shift"),
        ({"prediction_type": "epsilon"}, "prediction_type"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused_by_field(data: dict[str, object], field: str) -> None:
    with pytest.raises(ScheduleRefused) as refusal:
        Schedule.from_json(data)
    assert refusal.value.field == field


def draws() -> Callable[[], Tensor]:
    generator = torch.Generator().manual_seed(5)
    return lambda: torch.randn(4, generator=generator)


def test_a_model_that_knows_the_flow_finds_the_clean_latent_at_every_probe() -> None:
    clean = torch.tensor([0.3, -0.2, 1.0, 0.0])
    schedule = shifted(LINGBOT_LABELS, 5.0)

    def flow(number: int, noisy: Tensor) -> Tensor:
        return (noisy - clean) / schedule.steps[number].sigma

    for found in probes(schedule, draws(), flow):
        assert torch.allclose(found, clean, atol=1e-6)


def test_a_model_that_predicts_the_sample_is_taken_at_its_word() -> None:
    schedule = Schedule((Step(1000.0, 1.0), Step(500.0, 0.5)), "sample")
    found = list(probes(schedule, draws(), lambda number, noisy: torch.full((4,), float(number))))
    assert torch.equal(torch.stack(found), torch.tensor([[0.0] * 4, [1.0] * 4]))


def test_each_probe_gets_its_share_of_noise_and_one_draw() -> None:
    schedule = Schedule((Step(1000.0, 1.0), Step(800.0, 0.8), Step(300.0, 0.3)), "sample")
    seen: list[Tensor] = []

    def predict(number: int, noisy: Tensor) -> Tensor:
        seen.append(noisy)
        return torch.full((4,), float(number + 1))

    list(probes(schedule, draws(), predict))
    first, second, third = (draw() for draw in [draws()] for _ in range(3))
    assert torch.equal(seen[0], first)
    assert torch.allclose(seen[1], 0.2 * 1.0 + 0.8 * second)
    assert torch.allclose(seen[2], 0.7 * 2.0 + 0.3 * third)


def test_stopping_early_runs_no_further_probe() -> None:
    ran: list[int] = []

    def predict(number: int, noisy: Tensor) -> Tensor:
        ran.append(number)
        return noisy

    steps = probes(shifted(LINGBOT_LABELS, 5.0), draws(), predict)
    next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert ran == [0]
