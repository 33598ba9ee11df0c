from __future__ import annotations

import cmath

import pytest
import torch

from engine.transformer.rope import RotaryGrid, axis_widths, rotary_table, rotate

torch.set_num_threads(1)


def test_a_head_of_128_is_split_into_44_42_42() -> None:
    assert axis_widths(128) == (44, 42, 42)


@pytest.mark.parametrize("head_dim", [16, 32, 64, 128])
def test_the_widths_fill_the_head(head_dim: int) -> None:
    assert sum(axis_widths(head_dim)) == head_dim


@pytest.mark.parametrize("frame", [0, 3, 1023, 1024, 1025, 50_000, 10_000_000])
def test_every_angle_is_right_at_any_frame(frame: int) -> None:
    head_dim, rows, columns = 32, 2, 3
    table = rotary_table(torch.tensor([frame]), rows, columns, head_dim)
    for y in range(rows):
        for x in range(columns):
            expected = [
                cmath.rect(1.0, position * 10000.0 ** (-2 * pair / width))
                for position, width in zip((frame, y, x), axis_widths(head_dim), strict=True)
                for pair in range(width // 2)
            ]
            came = table[y * columns + x].to(torch.complex128)
            assert torch.allclose(came, torch.tensor(expected, dtype=torch.complex128), atol=2e-7, rtol=0)


def test_scores_depend_on_distance_alone_far_past_1024_frames() -> None:
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 12, 32, generator=generator)

    def scores(frame: int) -> torch.Tensor:
        turned = [
            rotate(one, rotary_table(torch.tensor([at]), 3, 4, 32))
            for one, at in ((q, frame + 9), (k, frame))
        ]
        return turned[0] @ turned[1].T

    near, far = scores(0), scores(1_000_000)
    assert torch.allclose(near, far, atol=1e-5)
    assert not torch.allclose(near, q @ k.T, atol=1e-2)


def test_a_batch_of_positions_gives_a_table_per_row() -> None:
    frames = torch.tensor([[0, 1], [7, 2000]])
    both = RotaryGrid(16).table(frames, 2, 2)
    assert both.shape == (2, 8, 8)
    for row in range(2):
        assert torch.equal(both[row], rotary_table(frames[row], 2, 2, 16))
