"""Rigid motions in float64, in the standard library alone: rotations as rows, quaternions as (x, y, z, w)."""

from __future__ import annotations

import math
from collections.abc import Sequence

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]
Rotation = tuple[Vector, Vector, Vector]
Pose = tuple[tuple[float, float, float, float], ...]
"""A 4x4 camera-to-world matrix, row by row."""

IDENTITY: Pose = (
    (1.0, 0.0, 0.0, 0.0),
    (0.0, 1.0, 0.0, 0.0),
    (0.0, 0.0, 1.0, 0.0),
    (0.0, 0.0, 0.0, 1.0),
)

LINEAR_ABOVE = 0.9995
"""Cosine of half the angle between rotations so close that slerp would divide by almost nothing."""


def pose_of(rotation: Rotation, translation: Vector) -> Pose:
    """Put a rotation and a translation together."""
    rows = tuple((*row, move) for row, move in zip(rotation, translation, strict=True))
    return (*rows, (0.0, 0.0, 0.0, 1.0))


def rotation_of(pose: Pose) -> Rotation:
    """The upper left 3x3."""
    (a, b, c, _), (d, e, f, _), (g, h, i, _), _ = pose
    return (a, b, c), (d, e, f), (g, h, i)


def translation_of(pose: Pose) -> Vector:
    """The last column."""
    return pose[0][3], pose[1][3], pose[2][3]


def multiply(a: Rotation, b: Rotation) -> Rotation:
    """a b."""
    (p, q, r), (s, t, u), (v, w, x) = b
    first, second, third = (
        (i * p + j * s + k * v, i * q + j * t + k * w, i * r + j * u + k * x) for i, j, k in a
    )
    return first, second, third


def turn(rotation: Rotation, vector: Vector) -> Vector:
    """Rotation times vector."""
    x, y, z = (row[0] * vector[0] + row[1] * vector[1] + row[2] * vector[2] for row in rotation)
    return x, y, z


def compose(a: Pose, b: Pose) -> Pose:
    """a b: the pose `b`, which is given in the frame of `a`."""
    moved = turn(rotation_of(a), translation_of(b))
    x, y, z = (base + step for base, step in zip(translation_of(a), moved, strict=True))
    return pose_of(multiply(rotation_of(a), rotation_of(b)), (x, y, z))


def quaternion_of(rotation: Rotation) -> Quaternion:
    """The unit quaternion of a rotation, from the largest of its four components (Shepperd's method)."""
    (a, b, c), (d, e, f), (g, h, i) = rotation
    squares = (1 + a - e - i, 1 - a + e - i, 1 - a - e + i, 1 + a + e + i)
    largest = max(range(4), key=squares.__getitem__)
    twice = math.sqrt(max(squares[largest], 0.0))
    rows = (
        (twice * twice, b + d, c + g, h - f),
        (b + d, twice * twice, f + h, c - g),
        (c + g, f + h, twice * twice, d - b),
        (h - f, c - g, d - b, twice * twice),
    )
    x, y, z, w = (value / (2 * twice) for value in rows[largest])
    return normalised((x, y, z, w))


def rotation_from(quaternion: Quaternion) -> Rotation:
    """The rotation of a unit quaternion."""
    x, y, z, w = quaternion
    return (
        (1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)),
        (2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)),
        (2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)),
    )


def normalised(quaternion: Quaternion) -> Quaternion:
    """The quaternion at length 1."""
    length = math.sqrt(sum(part * part for part in quaternion))
    x, y, z, w = (part / length for part in quaternion)
    return x, y, z, w


def slerp(a: Quaternion, b: Quaternion, fraction: float) -> Quaternion:
    """The rotation at `fraction` of the shorter arc from a to b."""
    cosine = sum(p * q for p, q in zip(a, b, strict=True))
    sign = -1.0 if cosine < 0 else 1.0
    cosine = abs(cosine)
    if cosine > LINEAR_ABOVE:
        near, far = 1 - fraction, fraction
    else:
        angle = math.acos(cosine)
        near, far = (math.sin(part * angle) / math.sin(angle) for part in (1 - fraction, fraction))
    x, y, z, w = (near * p + far * sign * q for p, q in zip(a, b, strict=True))
    return normalised((x, y, z, w))


def lerp(a: Sequence[float], b: Sequence[float], fraction: float) -> tuple[float, ...]:
    """Component by component."""
    return tuple(p + (q - p) * fraction for p, q in zip(a, b, strict=True))


def between(a: Pose, b: Pose, fraction: float) -> Pose:
    """Translation linear, rotation by slerp; exactly b at 1."""
    if fraction >= 1:
        return b
    rotation = slerp(quaternion_of(rotation_of(a)), quaternion_of(rotation_of(b)), fraction)
    x, y, z = lerp(translation_of(a), translation_of(b), fraction)
    return pose_of(rotation_from(rotation), (x, y, z))
