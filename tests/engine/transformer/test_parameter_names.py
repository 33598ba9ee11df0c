from __future__ import annotations

import pytest
import torch

from engine.checkpoint.weights import build_on_meta
from engine.transformer.config import PRESETS


def linear(name: str, out: int, into: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (out, into), f"{name}.bias": (out,)}


def lingbot_names() -> dict[str, tuple[int, ...]]:
    """The checkpoint's parameters, written down from its description, not from our module."""
    dim, ffn = 5120, 13824
    names: dict[str, tuple[int, ...]] = {
        "patch_embedding.weight": (dim, 36, 1, 2, 2),
        "patch_embedding.bias": (dim,),
        "head.modulation": (1, 2, dim),
    }
    names |= linear("patch_embedding_wancamctrl", dim, 1536)
    names |= linear("c2ws_hidden_states_layer1", dim, dim) | linear("c2ws_hidden_states_layer2", dim, dim)
    names |= linear("text_embedding.0", dim, 4096) | linear("text_embedding.2", dim, dim)
    names |= linear("time_embedding.0", dim, 256) | linear("time_embedding.2", dim, dim)
    names |= linear("time_projection.1", 6 * dim, dim) | linear("head.head", 64, dim)
    for n in range(40):
        block = f"blocks.{n}"
        names[f"{block}.modulation"] = (1, 6, dim)
        for attention in ("self_attn", "cross_attn"):
            for part in ("q", "k", "v", "o"):
                names |= linear(f"{block}.{attention}.{part}", dim, dim)
            names |= {f"{block}.{attention}.norm_{part}.weight": (dim,) for part in ("q", "k")}
        names |= {f"{block}.norm3.weight": (dim,), f"{block}.norm3.bias": (dim,)}
        names |= linear(f"{block}.ffn.0", ffn, dim) | linear(f"{block}.ffn.2", dim, ffn)
        for part in ("cam_injector_layer1", "cam_injector_layer2", "cam_scale_layer", "cam_shift_layer"):
            names |= linear(f"{block}.{part}", dim, dim)
    return names


def test_the_14b_preset_has_the_checkpoints_names_and_shapes_without_memory() -> None:
    model = build_on_meta(PRESETS["lingbot-world-v2-14b"])
    assert {name: tuple(one.shape) for name, one in model.state_dict().items()} == lingbot_names()
    assert {one.device.type for one in model.parameters()} == {"meta"}


def test_the_14b_preset_has_about_eighteen_billion_parameters() -> None:
    count = sum(one.numel() for one in build_on_meta(PRESETS["lingbot-world-v2-14b"]).parameters())
    assert count == sum(torch.Size(shape).numel() for shape in lingbot_names().values())


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_survives_its_json(name: str) -> None:
    config = PRESETS[name]
    assert type(config).from_json(config.to_json()) == config
