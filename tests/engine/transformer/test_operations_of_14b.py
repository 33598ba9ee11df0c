"""What the GPU page says a chunk of the 14B computes, against the module and against a formula."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.operations import PEAK_TFLOPS, SIZES, VIDEO_S, tflop_per_chunk

PAGE = Path(__file__).parents[3] / "docs" / "gpu.md"
DIM, FFN, LAYERS, TEXT = 5120, 13824, 40, 512


def by_formula(width: int, height: int) -> float:
    """TFLOP of the layers alone: linear layers and attention, by tokens and sizes."""
    frame = (width // 16) * (height // 16)
    tokens, seen = 3 * frame, 18 * frame
    linear = 2 * tokens * (6 * DIM * DIM + 2 * DIM * FFN)
    attention = 4 * tokens * DIM * (seen + TEXT)
    camera = 2 * tokens * 4 * DIM * DIM
    last = 2 * tokens * 3 * DIM * DIM  # the commit pass leaves the last layer after its q, k and v
    return (LAYERS * (4 * (linear + attention) + camera) + (LAYERS - 1) * (linear + attention) + last) / 1e12


@pytest.mark.parametrize("size", SIZES)
def test_the_page_says_what_is_counted(size: tuple[int, int]) -> None:
    counted = tflop_per_chunk(*size)
    assert counted == pytest.approx(by_formula(*size), rel=0.005)
    floor = counted / PEAK_TFLOPS
    row = f"| {size[0]}x{size[1]} | {counted:.0f} | {floor:.2f} s | {floor / VIDEO_S:.2f} |"
    assert row in PAGE.read_text()
