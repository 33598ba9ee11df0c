"""What clients of vLLM-Omni ask of the sampler: forgiven where it changes nothing, else refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.message import validated
from app.refusals import InvalidField
from app.sampling import check_sampling, flow_shift_of
from app.session_request import SessionRequest
from engine.pattern.card import pattern_card

TINY = replace(pattern_card(4), steps=2)  # noise levels of its own
LINGBOT = replace(pattern_card(4), flow_shift=5.0)
SCRIPT = [[["w"], ["w"], ["w"]], [["a"], [], []], [[], [], []]]
PRESET = {
    "is_enable_stage2": True,
    "pyramid_num_stages": 3,
    "pyramid_num_inference_steps_list": [1, 1, 1],
    "is_amplify_first_chunk": True,
}
DOCUMENTED = {
    "prompt": "The camera moves slowly forward through the scene.",
    "num_frames": 33,
    "fps": 16.0,
    "seed": 42,
    "guidance_scale": 1.0,
    "num_inference_steps": 4,
    "lora": None,
    "extra_params": {"flow_shift": 5.0, "camera_action_script": SCRIPT, **PRESET},
}
"""The start that vLLM-Omni's guide shows for LingBot World, with what its example client adds."""


def asked(**fields: Any) -> SessionRequest:
    return validated(SessionRequest, {"prompt": "a meadow", **fields})


def test_the_start_that_vllm_omni_documents_is_taken_by_a_model_of_other_steps_and_noise() -> None:
    request = validated(SessionRequest, DOCUMENTED)
    told = [(notice.code, notice.field) for notice in check_sampling(request, TINY)]
    assert told[:2] == [
        ("steps_fixed", "num_inference_steps"),
        ("shift_fixed", "extra_params.flow_shift"),
    ]
    assert {field for code, field in told[2:] if code == "field_ignored"} == {
        f"extra_params.{name}" for name in PRESET
    }
    assert flow_shift_of(request, TINY) is None
    assert request.fps == 16


def test_a_model_that_can_be_shifted_is() -> None:
    request = asked(num_inference_steps=4, extra_params={"flow_shift": 3.0})
    assert check_sampling(request, LINGBOT) == ()
    assert flow_shift_of(request, LINGBOT) == 3.0
    assert flow_shift_of(asked(flow_shift=7), LINGBOT) == 7
    assert flow_shift_of(asked(), LINGBOT) is None


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"guidance_scale": 1, "guidance_scale_2": 0, "true_cfg_scale": 1.0},
        {"num_outputs_per_prompt": 1, "generate_sound": False, "enable_frame_interpolation": False},
        {"user": "u", "return_stage_metrics": True, "negative_prompt": "", "video_reference": None},
    ],
)
def test_what_asks_for_what_is_anyway_is_taken_in_silence(fields: dict[str, Any]) -> None:
    assert check_sampling(asked(**fields), TINY) == ()


@pytest.mark.parametrize("fields", [{"boundary_ratio": 0.9}, {"quality": "high"}])
def test_what_this_model_has_not_is_ignored_with_a_notice(fields: dict[str, Any]) -> None:
    (notice,) = check_sampling(asked(**fields), TINY)
    assert (notice.code, notice.field) == ("field_ignored", *fields)


@pytest.mark.parametrize(
    ("fields", "field", "allowed"),
    [
        ({"guidance_scale": 5}, "guidance_scale", "at most 1: there is no guidance; got 5"),
        ({"true_cfg_scale": 1.5}, "true_cfg_scale", "at most 1"),
        ({"guidance_scale_2": 4}, "guidance_scale_2", "at most 1"),
        ({"negative_prompt": "fog"}, "negative_prompt", "must be empty"),
        ({"num_inference_steps": 50}, "num_inference_steps", "must be 2, the model's own; got 50"),
        ({"flow_shift": 3}, "flow_shift", "levels are fixed; got 3"),
        ({"extra_params": {"flow_shift": 3}}, "extra_params.flow_shift", "levels are fixed; got 3"),
        ({"flow_shift": 5, "extra_params": {"flow_shift": 3}}, "extra_params.flow_shift", "got 3"),
        ({"num_outputs_per_prompt": 2}, "num_outputs_per_prompt", "must be 1"),
        ({"generate_sound": True}, "generate_sound", "no sound"),
        ({"enable_frame_interpolation": True}, "enable_frame_interpolation", "must be false"),
    ],
)
def test_what_can_not_be_done_is_refused_by_name(fields: dict[str, Any], field: str, allowed: str) -> None:
    with pytest.raises(InvalidField) as refused:
        check_sampling(asked(**fields), TINY)
    assert refused.value.field == field
    assert allowed in str(refused.value)


@pytest.mark.parametrize("field", ["lora", "video_reference", "seconds", "size", "steps"])
def test_what_is_for_other_models_is_unknown(field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        asked(**{field: "4"})
    assert refused.value.field == field
