import pytest
import torch
from torch import nn

from engine.transformer.affine import Affine
from engine.transformer.block import Block
from engine.transformer.config import TransformerConfig
from engine.transformer.injection import Injectors
from engine.transformer.patches import features_last, patchify, patchify_last

torch.set_num_threads(1)

CONFIG = TransformerConfig(
    num_attention_heads=2, attention_head_dim=8, ffn_dim=32, num_layers=3, text_dim=8, freq_dim=16
)


@pytest.mark.parametrize("patch", [(1, 2, 2), (1, 1, 1), (1, 2, 3)])
def test_patches_with_features_last_and_their_weights_give_the_same_tokens(
    patch: tuple[int, int, int],
) -> None:
    grid, weight = torch.randn(1, 5, 3, 4, 6), torch.randn(7, 5 * patch[1] * patch[2])
    expected = patchify(grid, patch)[0] @ weight.t()
    out = patchify_last(grid, patch) @ features_last(weight, 5, patch).t()
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=0)


@torch.no_grad()
def test_layers_on_one_input_become_one_product() -> None:
    layers, x = [nn.Linear(6, 3), nn.Linear(6, 5)], torch.randn(4, 6)
    out = Affine.of(*layers)(x)
    torch.testing.assert_close(out, torch.cat([layer(x) for layer in layers], dim=1))


@torch.no_grad()
@pytest.mark.parametrize("layers", [1, 3])
def test_the_injectors_of_all_layers_at_once_give_what_each_gives(layers: int) -> None:
    blocks = [Block(CONFIG) for _ in range(layers)]
    camera = torch.randn(11, CONFIG.dim)
    before = camera.clone()
    injected = Injectors.of(blocks).inject(camera)
    assert torch.equal(camera, before) and len(injected) == layers
    for block, (scale, shift) in zip(blocks, injected, strict=True):
        expected_scale, expected_shift = block.inject(camera)
        torch.testing.assert_close(scale, expected_scale, atol=1e-5, rtol=0)
        torch.testing.assert_close(shift, expected_shift, atol=1e-5, rtol=0)
