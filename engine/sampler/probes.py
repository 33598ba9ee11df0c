"""From noise to a clean latent, one probe at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch import Tensor

from engine.sampler.schedule import Schedule


def probes(
    schedule: Schedule, draw: Callable[[], Tensor], predict: Callable[[int, Tensor], Tensor]
) -> Iterator[Tensor]:
    """Run the probes of one block; yields the clean latent x0 (fp32) that each one sees, the last is the
    result.

    `draw` gives fresh noise of the latent's shape: once at the beginning and once between two probes.
    `predict` takes the probe's number and the noisy latent. A caller that stops early runs no further
    probe.
    """
    noisy = draw()
    for number, following in enumerate((*schedule.steps[1:], None)):
        clean = clean_of(schedule, number, noisy, predict(number, noisy))
        yield clean
        if following is not None:
            noisy = (1 - following.sigma) * clean + following.sigma * draw()


def clean_of(schedule: Schedule, number: int, noisy: Tensor, prediction: Tensor) -> Tensor:
    """x0 of one probe, in fp32."""
    if schedule.prediction_type == "sample":
        return prediction.float()
    return noisy.float() - schedule.steps[number].sigma * prediction.float()
