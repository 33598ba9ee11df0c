"""The noise levels at which a block is probed, as `scheduler/scheduler_config.json` states them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

LINGBOT_LABELS = (1000.0, 750.0, 500.0, 250.0)
LINGBOT_SHIFT = 5.0
PREDICTIONS = ("flow_prediction", "sample")


class ScheduleRefused(ValueError):
    """A schedule can't be used; names the field, what came and what is allowed."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


@dataclass(frozen=True, slots=True)
class Step:
    """One probe: the timestep (0..1000) that the model is told, and the share of noise in its input."""

    timestep: float
    sigma: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """The probes of a block, noisiest first.

    `prediction_type` is diffusers': with `flow_prediction` x0 = x - sigma * prediction, with `sample` the
    prediction is x0. `labels` are the unshifted timesteps, where the schedule was made from some.
    """

    steps: tuple[Step, ...]
    prediction_type: str = "flow_prediction"
    labels: tuple[float, ...] | None = None
    flow_shift: float | None = None

    def __post_init__(self) -> None:
        if not self.steps:
            raise ScheduleRefused("sigmas", "expected at least one step, got none")
        sigmas = [step.sigma for step in self.steps]
        falling = all(a > b for a, b in pairwise(sigmas))
        if not falling or not 0 < sigmas[-1] <= sigmas[0] <= 1:
            raise ScheduleRefused("sigmas", f"expected falling numbers above 0 and up to 1, got {sigmas}")
        if self.prediction_type not in PREDICTIONS:
            came = repr(self.prediction_type)
            raise ScheduleRefused("prediction_type", f"expected one of {list(PREDICTIONS)}, got {came}")

    @property
    def timesteps(self) -> tuple[float, ...]:
        """What the model is told, probe by probe."""
        return tuple(step.timestep for step in self.steps)

    def shifted(self, flow_shift: float) -> Schedule:
        """The same labels at another shift. Raises `ScheduleRefused` where there are none."""
        if self.labels is None:
            raise ScheduleRefused(
                "flow_shift", "this checkpoint's noise levels are fixed, it can't be shifted"
            )
        return replace(shifted(self.labels, flow_shift), prediction_type=self.prediction_type)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Schedule:
        """Read a scheduler config: `sigmas` as they are, or else `denoising_steps` shifted by `flow_shift`.

        Both default to LingBot's, whose published scheduler config names neither. Raises `ScheduleRefused`.
        """
        prediction = data.get("prediction_type", "flow_prediction")
        if "sigmas" in data:
            sigmas = _numbers("sigmas", data["sigmas"])
            return cls(tuple(Step(1000 * sigma, sigma) for sigma in sigmas), prediction)
        labels = _numbers("denoising_steps", data.get("denoising_steps", LINGBOT_LABELS))
        (shift,) = _numbers("flow_shift", [data.get("flow_shift", LINGBOT_SHIFT)])
        return replace(shifted(labels, shift), prediction_type=prediction)

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads: labels and shift, where there are some, or the noise levels."""
        data: dict[str, Any] = {"_class_name": "WorldSchedule", "prediction_type": self.prediction_type}
        if self.labels is not None:
            return {**data, "denoising_steps": list(self.labels), "flow_shift": self.flow_shift}
        return {**data, "sigmas": [step.sigma for step in self.steps]}


def shifted(labels: Sequence[float], flow_shift: float) -> Schedule:
    """sigma' = shift s / (1 + (shift - 1) s) of s = label / 1000; the timestep is 1000 sigma'."""
    if not (math.isfinite(flow_shift) and flow_shift > 0):
        raise ScheduleRefused("flow_shift", f"expected a positive number, got {flow_shift}")
    shares = [label / 1000 for label in labels]
    sigmas = [flow_shift * share / (1 + (flow_shift - 1) * share) for share in shares]
    steps = tuple(Step(1000 * sigma, sigma) for sigma in sigmas)
    return Schedule(steps, labels=tuple(labels), flow_shift=flow_shift)


def _numbers(field: str, value: object) -> tuple[float, ...]:
    if not isinstance(value, (list, tuple)):
        raise ScheduleRefused(field, f"expected a list of numbers, got {value!r}")
    for one in value:
        if isinstance(one, bool) or not isinstance(one, (int, float)) or not math.isfinite(one):
            raise ScheduleRefused(field, f"expected finite numbers, got {one!r}")
    return tuple(float(one) for one in value)
