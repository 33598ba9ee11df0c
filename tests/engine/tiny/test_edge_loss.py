import pytest
import torch
import torch.nn.functional as F

from engine.tiny.edge_loss import edge_losses, laplacian, motion_losses
from engine.tiny.frames import clip, to_float

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def truth() -> torch.Tensor:
    return to_float(clip(1, 0, 2).frames)[None, :4]


def soft(pixels: torch.Tensor) -> torch.Tensor:
    return torch.unflatten(F.avg_pool2d(pixels.flatten(0, 1), 3, 1, padding=1), 0, (1, -1))


def test_the_laplacian_is_what_sharpness_counts() -> None:
    dot = torch.zeros(5, 5)
    dot[2, 2] = 1
    assert laplacian(dot).tolist() == [[0, -1, 0], [-1, 4, -1], [0, -1, 0]]


def test_the_truth_loses_nothing(truth: torch.Tensor) -> None:
    absolute, energy = edge_losses(truth, truth)
    assert float(absolute) == float(energy) == 0


def test_too_soft_and_too_sharp_both_lose(truth: torch.Tensor) -> None:
    blurred = soft(truth)
    overdone = truth + (truth - blurred)
    assert float(edge_losses(blurred, truth)[1]) > 0.1
    assert float(edge_losses(overdone, truth)[1]) > 0.1


def test_of_edges_that_lie_a_pixel_off_the_energy_prefers_the_sharp_one(truth: torch.Tensor) -> None:
    moved = truth.roll(1, dims=-1)
    between = (truth + moved) / 2
    assert float((between - truth).abs().mean()) < float((moved - truth).abs().mean())
    assert float(edge_losses(moved, truth)[1]) < float(edge_losses(between, truth)[1])


def test_too_little_motion_and_jumps_between_fours_both_lose() -> None:
    truth = to_float(clip(1, 2, 4).frames)[None, 1:13]
    assert [float(part) for part in motion_losses(truth, truth)] == [0, 0]
    still = truth[:, ::4].repeat_interleave(4, dim=1)
    absolute, energy = motion_losses(still, truth)
    assert float(absolute) > 0 and float(energy) > 1
