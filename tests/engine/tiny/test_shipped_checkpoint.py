"""What the shipped weights must never lose: quick samples of what `engine.tiny.figures` measures in full."""

import numpy as np
import pytest
import torch
from PIL import Image

from engine.checkpoint.load import load_model
from engine.checkpoint.scenes import read_scenes
from engine.tiny.export import origin_of
from engine.tiny.figures import CHECKPOINT, codec_figure
from engine.tiny.visits import STARTS, decibels, picture, random_keys, sharpness, truth_of, visit, walk_from
from engine.world.model import Model

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(CHECKPOINT)


def test_all_files_weigh_at_most_fifteen_megabytes() -> None:
    assert sum(path.stat().st_size for path in CHECKPOINT.rglob("*") if path.is_file()) <= 15e6


def test_every_scene_is_the_renderers_picture_at_its_origin() -> None:
    scenes = read_scenes(CHECKPOINT)
    assert len(scenes) == len(STARTS)
    for start, one in zip(STARTS, scenes, strict=True):
        drawn = picture(start.home, walk_from(start, np.zeros((0, 4), dtype=np.int64)).stances)[0]
        shipped = np.asarray(Image.open(one.picture).convert("RGB")).astype(int)
        assert np.abs(shipped - drawn).max() <= 1
        expected = origin_of(start.home.spawns[start.spawn])
        torch.testing.assert_close(torch.tensor(one.origin, dtype=torch.float64), expected)


def test_the_codec_keeps_the_pictures(model: Model) -> None:
    assert codec_figure(model).reached


@pytest.mark.parametrize("number", [0, 6, 9])
def test_a_place_follows_the_camera_and_not_its_mirror_and_is_sharp(model: Model, number: int) -> None:
    start, keys = STARTS[number], random_keys((11, number), 5)
    truth = truth_of(start, walk_from(start, keys))
    right, mirrored = visit(model, start, keys), visit(model, start, -keys)
    assert decibels(right, truth) > decibels(mirrored, truth) + 3
    assert decibels(right[-12:], truth[-12:]) > 20
    assert 0.6 < sharpness(right[9:]) / sharpness(truth[9:]) < 1.4
