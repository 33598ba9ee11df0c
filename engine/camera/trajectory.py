"""Recorded trajectories: `poses.npy` and `intrinsics.npy` in a directory under a trusted root."""

from __future__ import annotations

import os
import stat
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.camera.commands import MAX_FRAMES, Trajectory, rigid_problem

MAX_BYTES = 8 * MAX_FRAMES * 16 + 4096  # float64 poses and a header


class TrajectoryRefused(ValueError):
    """A recorded trajectory can't be used; says which file and why."""


def load_trajectory(root: Path, name: str) -> Trajectory:
    """Read the directory `name` under `root`.

    Files must be regular, lie under `root` after every symlink is followed, hold numbers without pickles, be
    finite, of equal lengths of 1 to 4096 frames. Raises `TrajectoryRefused`.
    """
    trusted = _root(root)
    if Path(name).is_absolute():
        raise TrajectoryRefused(f"{name!r} is absolute: name a directory under the trajectory root")
    if ".." in Path(name).parts:
        raise TrajectoryRefused(f"{name!r} leads out of the trajectory root: `..` is not allowed")
    folder = (trusted / name).resolve()
    if not folder.is_relative_to(trusted):
        raise TrajectoryRefused(f"{name!r} leads out of the trajectory root: it is a symlink, or lies in one")
    poses = _read(trusted, folder / "poses.npy", (4, 4))
    intrinsics = _read(trusted, folder / "intrinsics.npy", (4,))
    if len(poses) != len(intrinsics):
        raise TrajectoryRefused(f"{name!r}: {len(poses)} poses, but {len(intrinsics)} intrinsics")
    for index, pose in enumerate(poses.tolist()):
        problem = rigid_problem(tuple(map(tuple, pose)))
        if problem is not None:
            raise TrajectoryRefused(f"{name!r}: poses[{index}]: {problem}")
    if (intrinsics[:, :2] <= 0).any():
        raise TrajectoryRefused(f"{name!r}: focal lengths in intrinsics.npy must be positive")
    return Trajectory(
        tuple(tuple((a, b, c, d) for a, b, c, d in pose) for pose in poses.tolist()),
        tuple((fx, fy, cx, cy) for fx, fy, cx, cy in intrinsics.tolist()),
    )


def _root(root: Path) -> Path:
    try:
        return root.resolve(strict=True)
    except OSError as error:
        raise TrajectoryRefused(f"the trajectory root {str(root)!r}: {error.strerror}") from None


def _read(trusted: Path, path: Path, shape: tuple[int, ...]) -> NDArray[np.float64]:
    where = f"{path.parent.name}/{path.name}"
    data = BytesIO(_bytes(trusted, path, where))
    try:
        array = np.lib.format.read_array(data, allow_pickle=False)
    except (ValueError, MemoryError, OverflowError) as error:
        raise TrajectoryRefused(f"{where}: {error}") from None
    if array.dtype.kind not in "iuf":
        raise TrajectoryRefused(f"{where}: dtype {array.dtype}, expected numbers")
    if array.ndim != 1 + len(shape) or array.shape[1:] != shape:
        expected = "[F, " + ", ".join(map(str, shape)) + "]"
        raise TrajectoryRefused(f"{where}: shape {list(array.shape)}, expected {expected}")
    if not 1 <= len(array) <= MAX_FRAMES:
        raise TrajectoryRefused(f"{where}: {len(array)} frames, expected 1 to {MAX_FRAMES}")
    if not np.isfinite(array).all():
        raise TrajectoryRefused(f"{where}: every number must be finite")
    return array.astype(np.float64)


def _bytes(trusted: Path, path: Path, where: str) -> bytes:
    """The file's bytes, from the very file that was checked."""
    if not path.resolve().is_relative_to(trusted):
        raise TrajectoryRefused(f"{where}: a symlink that leads out of the trajectory root")
    try:
        descriptor = os.open(path.resolve(), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise TrajectoryRefused(f"{where}: {error.strerror}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise TrajectoryRefused(f"{where}: not a regular file, but {_kind(status.st_mode)}")
        if status.st_size > MAX_BYTES:
            raise TrajectoryRefused(f"{where}: {status.st_size} bytes, at most {MAX_BYTES}")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_BYTES)
    finally:
        os.close(descriptor)


def _kind(mode: int) -> str:
    kinds = {stat.S_ISDIR: "a directory", stat.S_ISFIFO: "a FIFO", stat.S_ISSOCK: "a socket"}
    return next((kind for is_one, kind in kinds.items() if is_one(mode)), "a device")
