"""Random walks in the model's own action units, as keys per latent frame and as camera poses.

The integration is that of the camera keys: 6 degrees of yaw, 4 of pitch and 0.05 units per latent frame,
the yaw and pitch first, then the step along the new heading. Nothing stops a walk: a place has no walls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.tiny.places import METRES_PER_UNIT, PERIOD, Spawn

YAW_STEP, PITCH_STEP = math.radians(6), math.radians(4)
MOVE_STEP = 0.05  # world units
PITCH_LIMIT = math.radians(25)  # of the training walks
PIXEL_FRAMES = 4  # per latent frame


@dataclass(frozen=True, slots=True)
class Stance:
    """A camera that stands level on the ground: world units and radians; azimuth from +z towards +x."""

    x: float
    z: float
    azimuth: float
    pitch: float = 0.0


@dataclass(frozen=True, slots=True)
class Walk:
    """`keys` [N, 4] (forward, right, turn right, look up; each -1, 0 or 1); `stances` [N + 1, 4] as in
    `Stance`."""

    keys: np.ndarray
    stances: np.ndarray


def integrate(start: Stance, keys: np.ndarray) -> Walk:
    """Follow `keys` [N, 4] from `start`."""
    stances = np.empty((len(keys) + 1, 4))
    stances[0] = x, z, azimuth, pitch = start.x, start.z, start.azimuth, start.pitch
    for frame, (forward, right, turning, looking) in enumerate(keys):
        azimuth += YAW_STEP * turning
        pitch += PITCH_STEP * looking
        x += MOVE_STEP * (forward * math.sin(azimuth) + right * math.cos(azimuth))
        z += MOVE_STEP * (forward * math.cos(azimuth) - right * math.sin(azimuth))
        stances[frame + 1] = x, z, azimuth, pitch
    return Walk(keys, stances)


def pixel_stances(walk: Walk) -> np.ndarray:
    """The stances of all pixel frames of a session that starts with this walk: [1 + 4 (N - 1), 4].

    Latent frame 0 is the start's single picture, though the first keys are spent on it: so latent frame 1
    leads from the start to the stance after the second keys, and every later one from stance to stance.
    """
    frames = [walk.stances[:1]]
    before = walk.stances[0]
    for after in walk.stances[2:]:
        share = np.arange(1, PIXEL_FRAMES + 1)[:, None] / PIXEL_FRAMES
        frames.append(before + share * (after - before))
        before = after
    return np.concatenate(frames)


def poses_of(stances: np.ndarray) -> Tensor:
    """Camera-to-world matrices [F, 4, 4] in float64; R = Ry(azimuth) Rx(pitch), axes x right, y down, z
    forward."""
    s = torch.from_numpy(np.ascontiguousarray(stances))
    sin_a, cos_a, sin_p, cos_p = s[:, 2].sin(), s[:, 2].cos(), s[:, 3].sin(), s[:, 3].cos()
    pose = torch.zeros(len(s), 4, 4, dtype=torch.float64)
    pose[:, 0, 0], pose[:, 0, 1], pose[:, 0, 2] = cos_a, sin_a * sin_p, sin_a * cos_p
    pose[:, 1, 1], pose[:, 1, 2] = cos_p, -sin_p
    pose[:, 2, 0], pose[:, 2, 1], pose[:, 2, 2] = -sin_a, cos_a * sin_p, cos_a * cos_p
    pose[:, 0, 3], pose[:, 2, 3], pose[:, 3, 3] = s[:, 0], s[:, 1], 1
    return pose


def stance_of(spawn: Spawn) -> Stance:
    """Where a scene begins, in world units and radians."""
    return Stance(spawn.x / METRES_PER_UNIT, spawn.z / METRES_PER_UNIT, math.radians(spawn.azimuth))


def random_walk(rng: np.random.Generator, length: int, start: Stance | None = None) -> Walk:
    """A walk of `length` latent frames, from anywhere on the torus unless a start is given."""
    side = PERIOD / METRES_PER_UNIT
    begin = start or Stance(rng.uniform(0, side), rng.uniform(0, side), rng.uniform(0, 2 * math.pi))
    looks = rng.random() < 0.3
    if looks and start is None:
        begin = Stance(begin.x, begin.z, begin.azimuth, rng.uniform(-PITCH_LIMIT, PITCH_LIMIT))
    keys = np.concatenate([random_segment(rng) for _ in range(length)])[:length]
    keys[:, 3] = looking_keys(rng, length, begin.pitch) if looks else 0
    return integrate(begin, keys)


def random_segment(rng: np.random.Generator) -> np.ndarray:
    """Keys held for half a second to three seconds: [n, 4], without looking up or down."""
    side = rng.choice([-1, 1])
    choices = [(0, 0, 0), (0, 0, side), (1, 0, 0), (1, 0, side), (0, side, 0), (1, side, 0), (-1, 0, 0)]
    choices += [(0, side, side), (0, side, -side), (-1, 0, side)]
    weights = [0.07, 0.24, 0.25, 0.20, 0.06, 0.04, 0.05, 0.03, 0.03, 0.03]
    forward, right, turning = choices[rng.choice(len(choices), p=weights)]
    length = int(rng.integers(2, 13))
    return np.tile(np.array([forward, right, turning, 0]), (length, 1))


def looking_keys(rng: np.random.Generator, length: int, pitch: float) -> np.ndarray:
    """Up, level or down for a few latent frames at a time, within the limit: [length]."""
    keys = np.zeros(length, dtype=np.int64)
    held = 0
    for frame in range(length):
        if rng.random() < 0.25:
            held = int(rng.choice([-1, 0, 1]))
        if abs(pitch + PITCH_STEP * held) > PITCH_LIMIT:
            held = 0
        pitch += PITCH_STEP * held
        keys[frame] = held
    return keys
