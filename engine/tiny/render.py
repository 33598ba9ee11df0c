"""Draws the places: deterministic, vectorised over frames, antialiased by distance.

Every surface is a function of a pixel's horizontal direction, its slope, and the camera's place on the
torus. The same source runs eagerly (the truth in tests, figures and scenes) and compiled
(`compiled_renderer`, some ten times faster, for data sets; it may differ from the eager one in the last
bit of a few pixels).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import astuple
from functools import cache
from typing import cast

import torch
from torch import Tensor

from engine.tiny.places import EYE, METRES_PER_UNIT, PERIOD, PLACES, Backdrop, Part, Place

HEIGHT, WIDTH = 64, 96
FOCAL = WIDTH / 2 / math.tan(math.radians(40))  # pixels: an 80 degree view
BATCH = 64  # frames per call of the kernel
HAZE_BEGINS, HAZE_ENDS = 0.62 * PERIOD / 2, 0.95 * PERIOD / 2  # metres

Kernel = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def render(place: Place, poses: Tensor, kernel: Kernel | None = None) -> Tensor:
    """Draw `place` from camera-to-world `poses` [F, 4, 4] (world units): uint8 [F, HEIGHT, WIDTH, 3]."""
    backdrop, towers, parts = tables()[PLACES.index(place)]
    frames = []
    for batch in torch.split(poses.to(torch.float32), BATCH):
        count = len(batch)
        if kernel is not None:  # a compiled kernel knows one batch size
            batch = torch.cat([batch, batch[-1:].expand(BATCH - count, 4, 4)])
        eye, rotation = batch[:, :3, 3] * METRES_PER_UNIT, batch[:, :3, :3].contiguous()
        frames.append((kernel or draw_frames)(eye, rotation, backdrop, towers, parts)[:count])
    return torch.cat(frames)


@cache
def compiled_renderer() -> Kernel:
    """The kernel through torch.compile: takes some seconds once, then draws about ten times faster."""
    return cast(Kernel, torch.compile(draw_frames, dynamic=False))


@cache
def tables() -> tuple[tuple[Tensor, Tensor, Tensor], ...]:
    """Each place as three float tables: backdrop [20], towers [N, 6], parts [N, 15]."""
    return tuple(
        (
            torch.tensor(flat_backdrop(place.backdrop)),
            torch.tensor([[t.azimuth, t.half_width, t.height, *t.colour] for t in place.backdrop.towers]),
            torch.tensor([flat_part(part) for part in place.parts]),
        )
        for place in PLACES
    )


def flat_backdrop(b: Backdrop) -> list[float]:
    """Six colours, the sun's azimuth, the phase."""
    colours = (b.zenith, b.horizon, b.ground, b.ground_patch, b.mountain, b.sun)
    return [c for colour in colours for c in colour] + [b.sun_azimuth, b.phase]


def flat_part(part: Part) -> list[float]:
    """The fields in order, colours and band spread out."""
    return [v for field in astuple(part) for v in (field if isinstance(field, tuple) else (field,))]


def draw_frames(eye: Tensor, rotation: Tensor, backdrop: Tensor, towers: Tensor, parts: Tensor) -> Tensor:
    """Draw [F] frames: `eye` [F, 3] metres, `rotation` [F, 3, 3]; returns uint8 [F, H, W, 3]."""
    hx, hz, slope, reach = pixel_directions(rotation)
    colour = mix(
        draw_sky(hx, hz, slope, backdrop, towers), draw_ground(eye, hx, hz, slope, backdrop), -slope * FOCAL
    )
    offsets = wrapped_offsets(eye, parts)  # [F, N, 2]
    distance = offsets.norm(dim=-1)
    # later parts of one landmark share its distance and must be drawn after it
    order = (distance - 1e-3 * torch.arange(len(parts))).argsort(dim=1, descending=True)
    for rank in range(len(parts)):
        which = order[:, rank]
        centre = offsets.gather(1, which[:, None, None].expand(-1, 1, 2))[:, 0]
        near = distance.gather(1, which[:, None])[:, 0]
        colour = draw_part(colour, parts[which], centre, near, eye, (hx, hz, slope, reach), backdrop)
    return (torch.stack(colour, dim=-1).clamp(0, 1) * 255 + 0.5).to(torch.uint8)


Rgb = tuple[Tensor, Tensor, Tensor]  # each [F, H, W]


def pixel_directions(rotation: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Per pixel [F, H, W]: the horizontal unit direction (x, z), the slope upwards, metres of ray per
    level metre."""
    u = (torch.arange(WIDTH) + 0.5 - WIDTH / 2) / FOCAL
    v = (torch.arange(HEIGHT) + 0.5 - HEIGHT / 2) / FOCAL
    x, y, z = (
        rotation[:, row, 0, None, None] * u
        + rotation[:, row, 1, None, None] * v[:, None]
        + rotation[:, row, 2, None, None]
        for row in range(3)
    )
    level = torch.sqrt(x * x + z * z).clamp(min=0.05)
    return x / level, z / level, -y / level, 1 / level


def mix(below: Rgb, above: Rgb, coverage: Tensor) -> Rgb:
    """`above` over `below`; `coverage` counts pixels from the edge, 0 on it."""
    a = (coverage + 0.5).clamp(0, 1)
    return (
        below[0] + a * (above[0] - below[0]),
        below[1] + a * (above[1] - below[1]),
        below[2] + a * (above[2] - below[2]),
    )


def blend(below: Rgb, above: Rgb, a: Tensor) -> Rgb:
    """`above` over `below` with opacity `a` in 0..1."""
    return (
        below[0] + a * (above[0] - below[0]),
        below[1] + a * (above[1] - below[1]),
        below[2] + a * (above[2] - below[2]),
    )


def colour_at(table: Tensor, start: int) -> Rgb:
    """Three columns of a table of [...], each [..., 1, 1] or scalar."""
    if table.ndim == 1:
        return table[start], table[start + 1], table[start + 2]
    return tuple(table[:, start + c, None, None] for c in range(3))  # type: ignore[return-value]


def turn(angle: Tensor) -> Tensor:
    """An angle in -pi..pi."""
    return angle - 2 * math.pi * torch.round(angle / (2 * math.pi))


def draw_sky(hx: Tensor, hz: Tensor, slope: Tensor, backdrop: Tensor, towers: Tensor) -> Rgb:
    """Gradient, sun with its glow, mountains, towers."""
    azimuth = torch.atan2(hx, hz)
    sun, phase = backdrop[18], backdrop[19]
    colour = blend(colour_at(backdrop, 3), colour_at(backdrop, 0), (slope / 0.9).clamp(0, 1).sqrt())
    aside = turn(azimuth - sun)
    away = torch.sqrt(aside * aside + (slope - 0.38) ** 2)
    glow = 0.3 * torch.exp(-away * away * 9)
    colour = blend(colour, colour_at(backdrop, 15), glow)
    colour = mix(colour, colour_at(backdrop, 15), (0.13 - away) * FOCAL)
    ridge = 0.05 + 0.05 * torch.sin(azimuth * 2 + phase).abs() + 0.03 * torch.sin(azimuth * 5 + phase * 2)
    colour = mix(colour, colour_at(backdrop, 12), (ridge - slope) * FOCAL)
    for index in range(len(towers)):
        tower = towers[index]
        inside = (tower[1] - turn(azimuth - tower[0]).abs()) * FOCAL + 0.5
        under = (tower[2] - slope) * FOCAL + 0.5
        colour = blend(colour, (tower[3], tower[4], tower[5]), inside.clamp(0, 1) * under.clamp(0, 1))
    return colour


def draw_ground(eye: Tensor, hx: Tensor, hz: Tensor, slope: Tensor, backdrop: Tensor) -> Rgb:
    """Two tones of soft patches that repeat with the torus, fading with distance into the horizon."""
    height = (EYE - eye[:, 1]).clamp(min=0.2)[:, None, None]
    distance = height / (-slope).clamp(min=0.01)
    turns = 2 * math.pi / PERIOD
    gx = (eye[:, 0, None, None] + hx * distance) * turns
    gz = (eye[:, 2, None, None] + hz * distance) * turns
    phase = backdrop[19]
    wave = torch.sin(2 * gx + phase + torch.sin(gz + phase)) * torch.sin(2 * gz + 2 * phase + torch.sin(gx))
    footprint = distance / FOCAL / (-slope).clamp(min=0.05)
    patch = (wave * 3).clamp(-1, 1) / (1 + 0.5 * footprint) * 0.5 + 0.5
    tone = blend(colour_at(backdrop, 6), colour_at(backdrop, 9), patch)
    haze = 1 - torch.exp(-distance / 30)
    far = colour_at(backdrop, 3)
    return blend(tone, (far[0] * 0.8, far[1] * 0.8, far[2] * 0.8), haze)


def wrapped_offsets(eye: Tensor, parts: Tensor) -> Tensor:
    """From the camera to the nearest copy of each part: [F, N, 2] metres (x, z)."""
    offset = parts[None, :, :2] - eye[:, None, 0::2]
    return offset - PERIOD * torch.round(offset / PERIOD)


def smoothstep(value: Tensor, low: Tensor | float, high: Tensor | float) -> Tensor:
    """0 below `low`, 1 above `high`, smooth between."""
    t = ((value - low) / (high - low)).clamp(0, 1)
    return t * t * (3 - 2 * t)


def draw_part(
    colour: Rgb,
    part: Tensor,
    centre: Tensor,
    distance: Tensor,
    eye: Tensor,
    pixels: tuple[Tensor, Tensor, Tensor, Tensor],
    backdrop: Tensor,
) -> Rgb:
    """One solid per frame over `colour`: `part` [F, 15], `centre` [F, 2] and `distance` [F] from the
    camera."""
    hx, hz, slope, reach = pixels
    radius, base, top, taper, roundness = (part[:, i, None, None] for i in range(2, 7))
    ex, ez = centre[:, 0, None, None], centre[:, 1, None, None]
    ahead = ex * hx + ez * hz
    aside = ex * hz - ez * hx
    height = EYE - eye[:, 1, None, None] + slope * ahead
    level = (height - base) / (top - base)
    inside = level.clamp(0, 1)
    ball = torch.sqrt(4 * inside * (1 - inside) + 1e-6)
    profile = radius * ((1 - taper * inside) * (1 - roundness) + ball * roundness)
    pixel = (ahead * reach / FOCAL).clamp(min=1e-3)
    opacity = ((profile - aside.abs()) / pixel + 0.5).clamp(0, 1)
    opacity = (
        opacity * ((top - height) / pixel + 0.5).clamp(0, 1) * ((height - base) / pixel + 0.5).clamp(0, 1)
    )
    near = smoothstep(distance, part[:, 2] + 0.1, part[:, 2] + 1.1)
    far = 1 - smoothstep(distance, HAZE_BEGINS, HAZE_ENDS)
    opacity = opacity * (ahead > 0) * (near * far)[:, None, None]
    edge = (aside / (profile + 1e-3)).clamp(-1, 1)
    facing = torch.sqrt(1 - edge * edge + 1e-6)
    sun_x, sun_z = torch.sin(backdrop[18]), torch.cos(backdrop[18])
    light = -(hx * sun_x + hz * sun_z) * facing - edge * (hz * sun_x - hx * sun_z)
    shade = 0.7 + 0.3 * light
    low, high = part[:, 13, None, None], part[:, 14, None, None]
    scale = (top - base) / pixel
    band = ((level - low) * scale + 0.5).clamp(0, 1) * ((high - level) * scale + 0.5).clamp(0, 1)
    paint = blend(colour_at(part, 7), colour_at(part, 10), band)
    haze = (0.4 * distance / HAZE_ENDS)[:, None, None]
    lit = blend((paint[0] * shade, paint[1] * shade, paint[2] * shade), colour_at(backdrop, 3), haze)
    return blend(colour, lit, opacity)
