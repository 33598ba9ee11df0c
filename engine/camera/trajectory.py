"""Recorded trajectories: `poses.npy` and `intrinsics.npy` in a directory under a trusted root."""

from __future__ import annotations

import os
import stat
import tokenize
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.api import ControlRefused
from engine.camera.commands import MAX_FRAMES, Trajectory, read_trajectory

MAX_BYTES = 8 * MAX_FRAMES * 16 + 4096  # float64 poses and a header
UNREADABLE = (
    ValueError, TypeError, SyntaxError, OverflowError, MemoryError, RecursionError, tokenize.TokenError
)  # fmt: skip
"""What numpy's reader raises for the headers of files that are no arrays."""


class TrajectoryRefused(ValueError):
    """A recorded trajectory can't be used; says which file and why."""


def load_trajectory(root: Path, name: str) -> Trajectory:
    """Read the directory `name` under `root`.

    Files must be regular, lie under `root` after every symlink is followed, hold numbers without pickles, be
    finite, of equal lengths of 1 to 4096 frames, and be what a trajectory control may be. Raises
    `TrajectoryRefused`.
    """
    trusted = _resolved(root, f"the trajectory root {str(root)!r}", strict=True)
    if Path(name).is_absolute():
        raise TrajectoryRefused(f"{name!r} is absolute: name a directory under the trajectory root")
    if ".." in Path(name).parts:
        raise TrajectoryRefused(f"{name!r} leads out of the trajectory root: `..` is not allowed")
    folder = _resolved(trusted / name, repr(name))
    if not folder.is_relative_to(trusted):
        raise TrajectoryRefused(f"{name!r} leads out of the trajectory root: it is a symlink, or lies in one")
    poses = _read(trusted, folder / "poses.npy", (4, 4))
    intrinsics = _read(trusted, folder / "intrinsics.npy", (4,))
    if len(poses) != len(intrinsics):
        raise TrajectoryRefused(f"{name!r}: {len(poses)} poses, but {len(intrinsics)} intrinsics")
    try:
        return read_trajectory({"poses": poses.tolist(), "intrinsics": intrinsics.tolist()})
    except ControlRefused as refused:
        raise TrajectoryRefused(f"{name!r}: {refused.message.removeprefix('data.')}") from None


def _resolved(path: Path, where: str, strict: bool = False) -> Path:
    try:
        return path.resolve(strict=strict)
    except RuntimeError:
        raise TrajectoryRefused(f"{where}: a symlink that leads to itself") from None
    except OSError as error:
        raise TrajectoryRefused(f"{where}: {error.strerror}") from None
    except ValueError as error:  # a null character
        raise TrajectoryRefused(f"{where}: {error}") from None


def _read(trusted: Path, path: Path, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The array of a file, [F, *shape]; nothing is made of it before its header is found good."""
    where = f"{path.parent.name}/{path.name}"
    data = BytesIO(_bytes(trusted, path, where))
    try:
        came, columns_first, dtype = _header(data)
    except UNREADABLE as error:
        raise TrajectoryRefused(
            f"{where}: not an array: {str(error)[:200] or type(error).__name__}"
        ) from None
    if dtype.hasobject:
        raise TrajectoryRefused(f"{where}: dtype {dtype}: pickled objects are never read")
    if dtype.kind not in "iuf":
        raise TrajectoryRefused(f"{where}: dtype {dtype}, expected numbers")
    if len(came) != 1 + len(shape) or came[1:] != shape:
        expected = "[F, " + ", ".join(map(str, shape)) + "]"
        raise TrajectoryRefused(f"{where}: shape {list(came)}, expected {expected}")
    if not 1 <= came[0] <= MAX_FRAMES:
        raise TrajectoryRefused(f"{where}: {came[0]} frames, expected 1 to {MAX_FRAMES}")
    content = data.read()
    size = int(np.prod(came)) * dtype.itemsize
    if len(content) != size:
        raise TrajectoryRefused(f"{where}: {len(content)} bytes of numbers, its header says {size}")
    with np.errstate(over="ignore"):  # a wider float becomes infinite, and is refused
        numbers = np.frombuffer(content, dtype).astype(np.float64)
    if not np.isfinite(numbers).all():
        raise TrajectoryRefused(f"{where}: every number must be finite")
    return numbers.reshape(came, order="F" if columns_first else "C")


def _header(data: BytesIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, and dtype."""
    version = np.lib.format.read_magic(data)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read:
        raise ValueError(f"its format is version {version}, expected one of {list(read)}")
    shape, columns_first, dtype = read[version](data)
    return tuple(map(int, shape)), columns_first, dtype


def _bytes(trusted: Path, path: Path, where: str) -> bytes:
    """The file's bytes, from the very file that was checked."""
    place = _resolved(path, where)
    if not place.is_relative_to(trusted):
        raise TrajectoryRefused(f"{where}: a symlink that leads out of the trajectory root")
    try:
        descriptor = open_beneath(trusted, place.relative_to(trusted))
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


def open_beneath(folder: Path, path: Path) -> int:
    """A descriptor of `path` under `folder`, step by step: no link is followed on the way, not even one that
    somebody put there after the path was checked. Raises `OSError`.
    """
    current = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for index, part in enumerate(path.parts, 1):
        kind = os.O_NONBLOCK if index == len(path.parts) else os.O_DIRECTORY
        try:
            following = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | kind, dir_fd=current)
        finally:
            os.close(current)
        current = following
    return current


def _kind(mode: int) -> str:
    kinds = {stat.S_ISDIR: "a directory", stat.S_ISFIFO: "a FIFO", stat.S_ISSOCK: "a socket"}
    return next((kind for is_one, kind in kinds.items() if is_one(mode)), "a device")
