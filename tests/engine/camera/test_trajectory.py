from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.camera.integrate import Camera, press
from engine.camera.resample import resample
from engine.camera.trajectory import TrajectoryRefused, load_trajectory, open_beneath


def poses_of(count: int) -> NDArray[np.float64]:
    poses = np.tile(np.eye(4), (count, 1, 1))
    poses[:, 2, 3] = np.arange(count)
    return poses


def write(root: Path, name: str, poses: object, intrinsics: object) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    np.save(folder / "poses.npy", poses, allow_pickle=True)
    np.save(folder / "intrinsics.npy", intrinsics, allow_pickle=True)
    return folder


def lenses(count: int) -> NDArray[np.float64]:
    return np.tile([500.0, 500.0, 416.0, 240.0], (count, 1))


def test_a_recorded_trajectory_is_read(tmp_path: Path) -> None:
    write(tmp_path, "walk", poses_of(5).astype(np.float32), lenses(5))
    trajectory = load_trajectory(tmp_path, "walk")
    assert [pose[2][3] for pose in trajectory.poses] == [0, 1, 2, 3, 4]
    assert trajectory.intrinsics == ((500, 500, 416, 240),) * 5


def test_a_link_inside_the_root_may_be_followed(tmp_path: Path) -> None:
    write(tmp_path, "walk", poses_of(1), lenses(1))
    (tmp_path / "alias").symlink_to(tmp_path / "walk")
    assert len(load_trajectory(tmp_path, "alias").poses) == 1


def test_no_link_may_leave_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    outside = write(tmp_path, "outside", poses_of(1), lenses(1))
    root.mkdir()
    (root / "out").symlink_to(outside)
    inside = write(root, "in", poses_of(1), lenses(1))
    (inside / "poses.npy").unlink()
    (inside / "poses.npy").symlink_to(outside / "poses.npy")
    reasons = {
        "out": "it is a symlink",
        "out/.": "it is a symlink",
        "in": "in/poses.npy: a symlink that leads out",
        "../outside": r"`\.\.` is not allowed",
        "in/../../outside": r"`\.\.` is not allowed",
        str(outside): "is absolute",
        str(inside): "is absolute",
    }
    for name, reason in reasons.items():
        with pytest.raises(TrajectoryRefused, match=reason):
            load_trajectory(root, name)


def test_a_root_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrajectoryRefused, match=r"no-root.*No such file"):
        load_trajectory(tmp_path / "no-root", "walk")


@pytest.mark.parametrize(
    ("poses", "intrinsics", "message"),
    [
        (poses_of(2), lenses(3), "2 poses, but 3 intrinsics"),
        (poses_of(0), lenses(0), "0 frames"),
        (poses_of(4097), lenses(4097), "4097 frames|bytes"),
        (poses_of(2)[:, :3], lenses(2), "shape"),
        (np.array([[["a"] * 4] * 4]), lenses(1), "expected numbers"),
        (np.full((1, 4, 4), None), lenses(1), "(?i)pickle"),
        (np.full((1, 4, 4), np.nan), lenses(1), "finite"),
        (poses_of(1) * 2, lenses(1), "last row"),
        (poses_of(1), -lenses(1), "positive"),
        (poses_of(1), lenses(1) * 1e-320, r"intrinsics\[0\]\[0\]: got .*positive"),
        (
            np.where(np.arange(16).reshape(1, 4, 4) == 3, 1e308, poses_of(1)),
            lenses(1),
            r"poses\[0\]\[0\]\[3\]: got 1e\+308, expected at most",
        ),
    ],
)
def test_other_files_are_refused_with_a_reason(
    tmp_path: Path, poses: object, intrinsics: object, message: str
) -> None:
    write(tmp_path, "walk", poses, intrinsics)
    with pytest.raises(TrajectoryRefused, match=message):
        load_trajectory(tmp_path, "walk")


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    folder = write(tmp_path, "walk", poses_of(1), lenses(1))
    (folder / "poses.npy").unlink()
    os.mkfifo(folder / "poses.npy")
    with pytest.raises(TrajectoryRefused, match="not a regular file, but a FIFO"):
        load_trajectory(tmp_path, "walk")
    (folder / "poses.npy").unlink()
    (folder / "poses.npy").mkdir()
    with pytest.raises(TrajectoryRefused, match="not a regular file, but a directory"):
        load_trajectory(tmp_path, "walk")


def test_a_device_file_is_not_read(tmp_path: Path) -> None:
    folder = write(tmp_path, "walk", poses_of(1), lenses(1))
    (folder / "poses.npy").unlink()
    try:
        os.mknod(folder / "poses.npy", 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # as /dev/zero
    except PermissionError:
        pytest.skip("making device files needs privileges")
    with pytest.raises(TrajectoryRefused, match="not a regular file, but a device"):
        load_trajectory(tmp_path, "walk")


NPY = b"\x93NUMPY\x01\x00"


def written(header: bytes, body: bytes = bytes(200)) -> bytes:
    return NPY + len(header).to_bytes(2, "little") + header + body


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an array"),
        (b"PK\x03\x04-\x00 an archive", "not an array"),
        (b"\x93NUMPY\x07\x00aaaa", "version"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + b" " * 1000, "not an array"),
        (written(b"{" * 100), "not an array"),
        (written(b"{'descr': " + b"-" * 9000 + b"1}"), "not an array: ."),
        (written(b"{'descr': 'V8', 'fortran_order': False, 'shape': (1, 4, 4), 1: 2}"), "not an array"),
        (
            written(b"{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999, 4, 4)}"),
            "9999999999 frames",
        ),
        (written(b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 4, 4)}"), "-1 frames"),
        (written(b"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 4, 4)}"), "200 bytes.*says 256"),
    ],
)
def test_headers_that_lie_are_refused_before_anything_is_made_of_them(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (write(tmp_path, "walk", poses_of(1), lenses(1)) / "poses.npy").write_bytes(content)
    with pytest.raises(TrajectoryRefused, match=rf"walk/poses\.npy: .*{message}"):
        load_trajectory(tmp_path, "walk")


def test_columns_may_come_first(tmp_path: Path) -> None:
    write(tmp_path, "walk", np.asfortranarray(poses_of(3)), lenses(3))
    assert [pose[2][3] for pose in load_trajectory(tmp_path, "walk").poses] == [0, 1, 2]


def test_links_that_lead_to_themselves_are_named(tmp_path: Path) -> None:
    folder = write(tmp_path, "walk", poses_of(1), lenses(1))
    (folder / "poses.npy").unlink()
    (folder / "poses.npy").symlink_to("poses.npy")
    (tmp_path / "round").symlink_to("round")
    for root, name in ((tmp_path, "walk"), (tmp_path, "round"), (tmp_path / "round", "walk")):
        with pytest.raises(
            TrajectoryRefused, match=r"a symlink that leads to itself|levels of symbolic links"
        ):
            load_trajectory(root, name)


def test_a_null_character_is_no_name(tmp_path: Path) -> None:
    with pytest.raises(TrajectoryRefused, match="null"):
        load_trajectory(tmp_path, "a\0b")


def test_a_link_that_comes_after_the_check_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path, "outside/walk", poses_of(1), lenses(1))
    root = tmp_path / "root"
    inside = write(root, "walk", poses_of(1), lenses(1))
    os.close(open_beneath(root, Path("walk/poses.npy")))
    inside.rename(root / "gone")
    inside.symlink_to(tmp_path / "outside" / "walk")
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        open_beneath(root, Path("walk/poses.npy"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(TrajectoryRefused, match=r"empty/poses\.npy"):
        load_trajectory(tmp_path, "empty")


def test_resampling_keeps_both_ends_and_turns_evenly() -> None:
    camera, poses = Camera(), [Camera().pose]
    for _ in range(4):
        camera = press(camera, {"l", "w"})
        poses.append(camera.pose)
    lens = [(500.0 + n, 500.0, 416.0, 240.0) for n in range(5)]
    sampled, scaled = resample(poses, lens, 3)
    assert (sampled[0], sampled[2]) == (poses[0], poses[4])
    assert sampled[1] == poses[2]
    assert [one[0] for one in scaled] == [500, 502, 504]
    finer, _ = resample(poses[:2], lens[:2], 3)
    assert finer[1][0][2] == pytest.approx(np.sin(np.radians(3)))


def test_one_pose_fills_a_block() -> None:
    sampled, _ = resample([Camera().pose], [(1.0, 1.0, 1.0, 1.0)], 3)
    assert sampled == (Camera().pose,) * 3
