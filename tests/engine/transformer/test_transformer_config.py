from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from engine.camera.session_rays import SessionRays
from engine.transformer.config import PRESETS, ConfigRefused, TransformerConfig

LINGBOT_JSON = """{
  "_class_name": "CausalLingBotWorldTransformer3DModel", "_diffusers_version": "0.35.0.dev0",
  "added_kv_proj_dim": null, "attention_head_dim": 128, "cross_attn_norm": true, "eps": 1e-06,
  "ffn_dim": 13824, "freq_dim": 256, "image_dim": null, "in_channels": 36, "num_attention_heads": 40,
  "num_layers": 40, "out_channels": 16, "patch_size": [1, 2, 2], "pos_embed_seq_len": null,
  "qk_norm": "rms_norm_across_heads", "rope_max_seq_len": 1024, "text_dim": 4096, "local_attn_size": -1,
  "sink_size": 9, "num_frames_per_block": 3, "sliding_window_num_frames": 18
}"""


def tiny(**changes: Any) -> dict[str, Any]:
    return {**PRESETS["tiny"].to_json(), **changes}


def test_a_published_config_reads_as_the_14b_preset_without_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        config = TransformerConfig.from_json(json.loads(LINGBOT_JSON))
    assert config == PRESETS["lingbot-world-v2-14b"]
    assert not caplog.records


def test_an_unknown_field_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        TransformerConfig.from_json(tiny(surprise=1))
    assert "surprise" in caplog.text


def test_session_features_survive_the_json() -> None:
    rays = SessionRays()
    data = tiny(camera_inputs=["framewise", "session"], session_rays=rays.to_json())
    config = TransformerConfig.from_json(json.loads(json.dumps(data)))
    assert config.session_rays == rays
    assert TransformerConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"num_layers": 0}, "num_layers"),
        ({"num_layers": True}, "num_layers"),
        ({"ffn_dim": 1.5}, "ffn_dim"),
        ({"sink_size": -1}, "sink_size"),
        ({"attention_head_dim": 31}, "attention_head_dim"),
        ({"freq_dim": 15}, "freq_dim"),
        ({"in_channels": 32}, "in_channels"),
        ({"patch_size": [2, 2, 2]}, "patch_size"),
        ({"patch_size": [2, 2]}, "patch_size"),
        ({"sliding_window_num_frames": 5}, "sliding_window_num_frames"),
        ({"camera_inputs": ["session"]}, "camera_inputs"),
        ({"camera_inputs": ["framewise", "session"]}, "session_rays"),
        ({"image_condition": "none"}, "image_condition"),
        ({"qk_norm": "layer_norm"}, "qk_norm"),
        ({"image_dim": 1280}, "image_dim"),
    ],
)
def test_a_config_that_can_not_be_built_is_refused_by_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigRefused) as refusal:
        TransformerConfig.from_json(tiny(**changes))
    assert refusal.value.field == field


def test_a_missing_field_is_named() -> None:
    data = tiny()
    del data["ffn_dim"]
    with pytest.raises(ConfigRefused, match="ffn_dim: missing"):
        TransformerConfig.from_json(data)
