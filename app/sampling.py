"""What a client asks of the sampler: honoured, forgiven with a notice, or refused.

Clients of vLLM-Omni send its defaults whatever the model is; those change nothing and are forgiven.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.refusals import InvalidField, shortened
from app.session_request import ExtraParams, SessionRequest
from engine.api import ModelCard

PROTOCOL_STEPS = 4
PROTOCOL_SHIFT = 5.0


@dataclass(frozen=True, slots=True)
class Notice:
    """Something in a request that is not followed, and changes nothing."""

    code: str
    message: str
    field: str


def check_sampling(request: SessionRequest, card: ModelCard) -> tuple[Notice, ...]:
    """What is forgiven in `request`. Raises `InvalidField` for what the model can't do."""
    _check_guidance(request)
    _check_outputs(request)
    return (*_steps(request, card), *_shift(request, card), *_ignored(request))


def flow_shift_of(request: SessionRequest, card: ModelCard) -> float | None:
    """The shift to open a world with; None where the model's own is meant."""
    return None if card.flow_shift is None else _asked_shift(request)[1]


def _check_outputs(request: SessionRequest) -> None:
    if request.num_outputs_per_prompt not in (None, 1):
        asked = request.num_outputs_per_prompt
        raise InvalidField("num_outputs_per_prompt", f"must be 1: a session shows one video; got {asked}")
    if request.generate_sound:
        raise InvalidField("generate_sound", "must be false: there is no sound; got True")
    if request.enable_frame_interpolation:
        field = "enable_frame_interpolation"
        raise InvalidField(field, "must be false: all frames are the model's own; got True")


def _ignored(request: SessionRequest) -> list[Notice]:
    extra = request.extra_params or ExtraParams()
    given = {
        "boundary_ratio": request.boundary_ratio,
        "quality": request.quality,
        "extra_params.is_enable_stage2": extra.is_enable_stage2,
        "extra_params.is_amplify_first_chunk": extra.is_amplify_first_chunk,
        "extra_params.pyramid_num_stages": extra.pyramid_num_stages,
        "extra_params.pyramid_num_inference_steps_list": extra.pyramid_num_inference_steps_list,
    }
    return [
        Notice("field_ignored", f"this model has no {field}: it is ignored", field)
        for field, value in given.items()
        if value is not None
    ]


def _check_guidance(request: SessionRequest) -> None:
    if request.negative_prompt:
        raise InvalidField(
            "negative_prompt",
            f"must be empty: there is no guidance; got {shortened(request.negative_prompt)}",
        )
    scales = {
        "guidance_scale": request.guidance_scale,
        "guidance_scale_2": request.guidance_scale_2,
        "true_cfg_scale": request.true_cfg_scale,
    }
    for field, scale in scales.items():
        if scale is not None and scale > 1:
            raise InvalidField(field, f"must be at most 1: there is no guidance; got {scale:g}")


def _steps(request: SessionRequest, card: ModelCard) -> list[Notice]:
    field, steps = "num_inference_steps", request.num_inference_steps
    if steps in (None, card.steps):
        return []
    if steps != PROTOCOL_STEPS:
        raise InvalidField(field, f"must be {card.steps}, the model's own; got {steps}")
    return [Notice("steps_fixed", f"this model takes {card.steps} steps; {steps} were asked for", field)]


def _shift(request: SessionRequest, card: ModelCard) -> list[Notice]:
    field, shift = _asked_shift(request)
    if shift is None or card.flow_shift is not None:
        return []
    if shift != PROTOCOL_SHIFT:
        raise InvalidField(
            field,
            f"must be left out (or be {PROTOCOL_SHIFT:g}): this model's noise levels are fixed; "
            f"got {shift:g}",
        )
    message = f"this model's noise levels are fixed; a shift of {shift:g} was asked for"
    return [Notice("shift_fixed", message, field)]


def _asked_shift(request: SessionRequest) -> tuple[str, float | None]:
    """vLLM-Omni's clients send it in `extra_params`."""
    inside = None if request.extra_params is None else request.extra_params.flow_shift
    beside = request.flow_shift
    if inside is not None and beside is not None and inside != beside:
        raise InvalidField("extra_params.flow_shift", f"must be `flow_shift`'s {beside:g}; got {inside:g}")
    return ("flow_shift", beside) if inside is None else ("extra_params.flow_shift", inside)
