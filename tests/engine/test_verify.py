from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.verify import GoldenRefused, verify_camera, verify_golden

torch.set_num_threads(1)
DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def tensors() -> dict[str, Tensor]:
    return load_file(DATA / "lingbot_a.safetensors")


@pytest.fixture(scope="module")
def meta() -> dict[str, object]:
    data: dict[str, object] = json.loads((DATA / "lingbot_a.json").read_text())
    return data


def save(folder: Path, meta: dict[str, object], tensors: dict[str, Tensor]) -> Path:
    (folder / "golden.json").write_text(json.dumps(meta))
    save_file(tensors, folder / "golden.safetensors")
    return folder / "golden"


def test_the_recorded_transformer_is_met() -> None:
    report = verify_golden(DATA / "lingbot_a")
    assert report.ok
    assert set(json.loads(report.json_line())) == {"flow_max_abs", "x0_max_abs"}


def test_the_recorded_camera_is_met() -> None:
    report = verify_camera(DATA / "camera")
    assert report.ok
    assert set(json.loads(report.json_line())) == {"pose_max_abs", "rays_max_abs"}


def test_a_changed_weight_is_out_of_tolerance(
    tmp_path: Path, meta: dict[str, object], tensors: dict[str, Tensor]
) -> None:
    changed = dict(tensors)
    name = "weights/blocks.1.cam_shift_layer.bias"
    changed[name] = tensors[name].clone()
    changed[name][5] += 1e-3
    assert not verify_golden(save(tmp_path, meta, changed)).ok


def test_a_wrong_window_is_out_of_tolerance(
    tmp_path: Path, meta: dict[str, object], tensors: dict[str, Tensor]
) -> None:
    prefix = save(tmp_path, {**meta, "window_frames_total": 6}, tensors)
    assert not verify_golden(prefix).ok


def test_nan_is_out_of_tolerance(tmp_path: Path, meta: dict[str, object], tensors: dict[str, Tensor]) -> None:
    changed = dict(tensors)
    changed["block2/flow"] = torch.full_like(tensors["block2/flow"], torch.nan)
    report = verify_golden(save(tmp_path, meta, changed))
    assert not report.ok
    assert json.loads(report.json_line(), parse_constant=pytest.fail)["flow_max_abs"] is None


def test_rotary_positions_are_relative_so_a_late_start_changes_nothing_but_rounding(
    tmp_path: Path, meta: dict[str, object], tensors: dict[str, Tensor]
) -> None:
    report = verify_golden(save(tmp_path, {**meta, "start_frame": 300_000}, tensors))
    assert report.flow_max_abs < 1e-5


def test_a_missing_weight_is_named(
    tmp_path: Path, meta: dict[str, object], tensors: dict[str, Tensor]
) -> None:
    less = {name: tensor for name, tensor in tensors.items() if name != "weights/head.modulation"}
    with pytest.raises(GoldenRefused, match=r"missing: head\.modulation"):
        verify_golden(save(tmp_path, meta, less))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(GoldenRefused, match="nothing"):
        verify_camera(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"blocks": 0}, r"blocks: expected an integer of at least 1, got 0"),
        ({"blocks": 7}, r"no tensor block6/condition"),
        ({"schedule": "x"}, r"schedule: expected a list of \[timestep, sigma\], got 'x'"),
        ({"schedule": [[1000.0, 1.0]]}, r"block0/noise: expected shape"),
        ({"model": []}, r"model: expected an object"),
        ({"start_frame": -3}, r"start_frame: expected an integer of at least 0"),
        ({"height": 5}, r"height: expected a multiple of the patch, 2, got 5"),
        ({"height": 8}, r"block0/condition: expected shape \[1, 20, 3, 8, 6\], got \[1, 20, 3, 4, 6\]"),
    ],
)
def test_a_transformer_file_of_another_form_is_refused_by_name(
    tmp_path: Path,
    meta: dict[str, object],
    tensors: dict[str, Tensor],
    changes: dict[str, object],
    told: str,
) -> None:
    with pytest.raises(GoldenRefused, match=told):
        verify_golden(save(tmp_path, {**meta, **changes}, tensors))


def test_tensors_of_another_shape_or_kind_are_refused_by_name(
    tmp_path: Path, meta: dict[str, object], tensors: dict[str, Tensor]
) -> None:
    short = {**tensors, "block0/flow": tensors["block0/flow"][:4].contiguous()}
    with pytest.raises(GoldenRefused, match=r"block0/flow: expected shape \[5, 16, 3, 4, 6\]"):
        verify_golden(save(tmp_path, meta, short))
    whole = {**tensors, "weights/head.modulation": tensors["weights/head.modulation"].int()}
    with pytest.raises(GoldenRefused, match=r"weights/head\.modulation: expected floating point"):
        verify_golden(save(tmp_path, meta, whole))


@pytest.mark.parametrize(
    ("name", "script", "told"),
    [
        ("idle", [[], [], []], "NAME@WIDTHxHEIGHT"),
        ("idle@160x90", [[], [], []], "multiples of 8"),
        ("idle@160x96", "www", "list of lists of keys"),
        ("idle@160x96", [["q"], [], []], r"keys of adijklsw, got \['q'\]"),
        ("idle@160x96", [[], [], [], []], r"poses: expected shape \[4, 4, 4\], got \[3, 4, 4\]"),
        ("other@160x96", [[], [], []], "no tensor other@160x96"),
    ],
)
def test_a_camera_file_of_another_form_is_refused_by_name(
    tmp_path: Path, name: str, script: object, told: str
) -> None:
    stored = load_file(DATA / "camera.safetensors")
    with pytest.raises(GoldenRefused, match=told):
        verify_camera(save(tmp_path, {name: script}, stored))


def test_a_transformer_file_is_no_camera_file(tmp_path: Path) -> None:
    with pytest.raises(GoldenRefused, match="source"):
        verify_camera(DATA / "lingbot_a")


def test_a_file_without_a_case_verifies_nothing(tmp_path: Path) -> None:
    with pytest.raises(GoldenRefused, match="something in it"):
        verify_camera(save(tmp_path, {}, load_file(DATA / "camera.safetensors")))
