"""From motions to camera poses: one pose per latent frame, each the one *after* its motion.

Camera-to-world, float64, axes x right, y down, z forward (the facts of the LingBot World checkpoint).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from engine.camera.algebra import (
    IDENTITY,
    Pose,
    Rotation,
    Vector,
    between,
    compose,
    multiply,
    pose_of,
    rotation_of,
    translation_of,
)

PITCH_STEP = 4.0  # degrees per latent frame
YAW_STEP = 6.0
PITCH_LIMIT = 85.0
MOVE_STEP = 0.05  # world units per latent frame
NORM_FLOOR = 1e-6


@dataclass(frozen=True, slots=True)
class Camera:
    """What is carried from block to block: the last pose and the running pitch in degrees."""

    pose: Pose = IDENTITY
    pitch: float = 0.0

    @classmethod
    def at(cls, pose: Pose) -> Camera:
        """A camera at a pose that no keys led to: its pitch is that of its viewing direction."""
        sine = max(-1.0, min(1.0, -pose[1][2]))
        return cls(pose, math.degrees(math.asin(sine)))


def press(camera: Camera, keys: Collection[str]) -> Camera:
    """One latent frame of holding `keys` (of w a s d i j k l, lower case)."""
    pitch = PITCH_STEP * (("i" in keys) - ("k" in keys))
    if abs(camera.pitch + pitch) > PITCH_LIMIT:
        pitch = 0.0  # dropped, not clamped
    yaw = YAW_STEP * (("l" in keys) - ("j" in keys))
    rotation = multiply(multiply(_about_y(yaw), rotation_of(camera.pose)), _about_x(pitch))
    forward, right = _level(rotation, 2), _level(rotation, 0)
    ahead = MOVE_STEP * (("w" in keys) - ("s" in keys))
    aside = MOVE_STEP * (("d" in keys) - ("a" in keys))
    x, y, z = (
        at + ahead * f + aside * r
        for at, f, r in zip(translation_of(camera.pose), forward, right, strict=True)
    )
    return Camera(pose_of(rotation, (x, y, z)), camera.pitch + pitch)


def shift(camera: Camera, delta: Pose) -> Camera:
    """Compose a motion on the right, in world units."""
    return Camera.at(compose(camera.pose, delta))


def approach(camera: Camera, target: Pose, fraction: float) -> Camera:
    """Go `fraction` of the way that is left to `target`."""
    return Camera.at(between(camera.pose, target, fraction))


def _level(rotation: Rotation, column: int) -> Vector:
    x, z = rotation[0][column], rotation[2][column]
    length = math.sqrt(x * x + z * z) + NORM_FLOOR
    return x / length, 0.0, z / length


def _about_y(degrees: float) -> Rotation:
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return (cosine, 0.0, sine), (0.0, 1.0, 0.0), (-sine, 0.0, cosine)


def _about_x(degrees: float) -> Rotation:
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return (1.0, 0.0, 0.0), (0.0, cosine, -sine), (0.0, sine, cosine)
