import numpy as np
import pytest
import torch

from engine.tiny.places import MEADOW, METRES_PER_UNIT, PERIOD, PLACES, Place
from engine.tiny.render import HEIGHT, WIDTH, render
from engine.tiny.walks import Stance, integrate, poses_of, stance_of

torch.set_num_threads(1)


def view(place: Place, *stances: Stance) -> torch.Tensor:
    rows = np.concatenate([integrate(one, np.zeros((0, 4))).stances for one in stances])
    return render(place, poses_of(rows)).int()


def test_the_same_pose_gives_the_same_bytes_in_any_company() -> None:
    stances = [Stance(0.13 * i, 0.2 - 0.31 * i, 0.7 * i) for i in range(70)]
    together = view(MEADOW, *stances)
    assert together.shape == (70, HEIGHT, WIDTH, 3)
    for i in (0, 1, 33, 63, 64, 69):
        assert torch.equal(view(MEADOW, stances[i])[0], together[i])


def test_a_period_further_on_is_the_same_place() -> None:
    side = PERIOD / METRES_PER_UNIT
    frames = view(MEADOW, Stance(0.1, 0.2, 0.3), Stance(0.1 + side, 0.2 - 2 * side, 0.3))
    assert int((frames[0] - frames[1]).abs().max()) <= 2


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_scenes_differ_from_each_other(place: Place) -> None:
    frames = view(place, *(stance_of(spawn) for spawn in place.spawns)).float()
    for a in range(len(frames)):
        for b in range(a):
            assert float((frames[a] - frames[b]).abs().mean()) > 4


def test_places_differ() -> None:
    colours = [view(place, stance_of(place.spawns[0])).float().mean(dim=(0, 1, 2)) for place in PLACES]
    assert min(float((colours[a] - colours[b]).norm()) for a in range(3) for b in range(a)) > 20


def test_turning_right_moves_the_picture_left() -> None:
    frames = view(MEADOW, Stance(0.0, 0.0, 0.0), Stance(0.0, 0.0, np.radians(6.0))).float()
    sky = frames[:, 8:28]
    shifted = (sky[0, :, 6:] - sky[1, :, :-6]).abs().mean()
    unshifted = (sky[0] - sky[1]).abs().mean()
    assert shifted < 0.6 * unshifted


def test_walking_through_a_landmark_never_jumps() -> None:
    part = MEADOW.parts[2]  # the red column
    steps = np.arange(-3.0, 3.0, 0.1) + part.z
    path = [Stance(part.x / METRES_PER_UNIT, z / METRES_PER_UNIT, 0.0) for z in steps]
    frames = view(MEADOW, *path).float()
    change = (frames[1:] - frames[:-1]).abs().mean(dim=(1, 2, 3))
    assert float(change.max()) < 15


def test_the_haze_hides_where_a_copy_takes_over() -> None:
    part = MEADOW.parts[2]
    half = PERIOD / 2
    steps = part.z - half + np.array([-0.01, 0.01])
    frames = view(MEADOW, *(Stance(part.x / METRES_PER_UNIT, z / METRES_PER_UNIT, 0.0) for z in steps))
    assert float((frames[0] - frames[1]).float().abs().mean()) < 0.5  # a column here moves it by 3
