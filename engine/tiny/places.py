"""The three places that the tiny world knows by heart.

A place is a torus: it repeats every `PERIOD` metres in both ground axes, so that a visitor may walk straight
on for ever. Every landmark is seen once, as its nearest copy, and melts into the haze before another copy
becomes the nearest. What lies beyond (sky, sun, mountains, towers) stands at fixed azimuths at infinity and
gives the heading.

Coordinates are those of the camera: x right, y down, z forward, in metres, the eye at y = 0 and the ground
at y = `EYE`. An azimuth is the angle from +z towards +x in radians. Colours are linear RGB in 0..1.
"""

from __future__ import annotations

from dataclasses import dataclass

Colour = tuple[float, float, float]

PERIOD = 20.0  # metres
EYE = 1.6  # metres above the ground
METRES_PER_UNIT = 8.0  # one action step of 0.05 units is 0.4 m


@dataclass(frozen=True, slots=True)
class Part:
    """A solid of revolution that stands at (x, z): `radius` at its base, from height `base` to `top`.

    `taper` 0 is a cylinder and 1 a cone; `roundness` 1 is a ball. `second` colours the heights between the
    fractions `band`.
    """

    x: float
    z: float
    radius: float
    base: float
    top: float
    taper: float
    roundness: float
    first: Colour
    second: Colour
    band: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Tower:
    """A silhouette at infinity: azimuth, half width (radians), height (tangent of its elevation)."""

    azimuth: float
    half_width: float
    height: float
    colour: Colour


@dataclass(frozen=True, slots=True)
class Backdrop:
    """What has no distance: sky, ground colours, mountains, sun and towers."""

    zenith: Colour
    horizon: Colour
    ground: Colour
    ground_patch: Colour
    mountain: Colour
    sun: Colour
    sun_azimuth: float
    phase: float  # shifts mountains and ground pattern, so that the places differ
    towers: tuple[Tower, ...]


@dataclass(frozen=True, slots=True)
class Spawn:
    """Where a scene begins: metres and degrees of azimuth."""

    x: float
    z: float
    azimuth: float


@dataclass(frozen=True, slots=True)
class Place:
    """One torus with its landmarks; `title` names it to people, and `prompt` to the text encoder."""

    name: str
    title: str
    prompt: str
    backdrop: Backdrop
    parts: tuple[Part, ...]
    spawns: tuple[Spawn, ...]


def column(
    x: float, z: float, first: Colour, second: Colour, height: float = 4.0, radius: float = 0.7
) -> list[Part]:
    """A banded pillar."""
    return [Part(x, z, radius, 0.0, height, 0.0, 0.0, first, second, (0.55, 0.8))]


def cone(
    x: float, z: float, first: Colour, second: Colour, height: float = 3.6, radius: float = 1.3
) -> list[Part]:
    """A pointed tent with a coloured tip."""
    return [Part(x, z, radius, 0.0, height, 1.0, 0.0, first, second, (0.5, 1.2))]


def ball(x: float, z: float, first: Colour, second: Colour, radius: float = 1.2) -> list[Part]:
    """A boulder, dark below."""
    return [Part(x, z, radius, -0.2 * radius, 1.8 * radius, 0.0, 1.0, first, second, (-0.2, 0.4))]


def tree(x: float, z: float, trunk: Colour, crown: Colour, second: Colour) -> list[Part]:
    """A trunk and a round crown."""
    return [
        Part(x, z, 0.28, 0.0, 2.4, 0.2, 0.0, trunk, trunk, (2.0, 3.0)),
        Part(x, z, 1.4, 1.7, 4.5, 0.0, 1.0, crown, second, (-0.2, 0.35)),
    ]


def block(
    x: float, z: float, first: Colour, second: Colour, height: float = 2.2, radius: float = 1.5
) -> list[Part]:
    """A low, broad tower."""
    return [Part(x, z, radius, 0.0, height, 0.35, 0.0, first, second, (0.7, 1.2))]


RED, BLUE, GREEN, YELLOW = (0.86, 0.16, 0.14), (0.15, 0.30, 0.80), (0.10, 0.42, 0.16), (0.98, 0.80, 0.14)
WHITE, BROWN, PINK, ORANGE = (0.95, 0.95, 0.95), (0.42, 0.26, 0.14), (0.90, 0.48, 0.74), (0.97, 0.52, 0.12)
VIOLET, CYAN, LIME, MAGENTA = (0.48, 0.25, 0.80), (0.14, 0.92, 0.95), (0.28, 0.97, 0.36), (0.98, 0.18, 0.68)
RUST, TEAL, SLATE, DARK = (0.60, 0.22, 0.12), (0.14, 0.48, 0.50), (0.24, 0.24, 0.32), (0.20, 0.14, 0.12)

MEADOW = Place(
    name="meadow",
    title="Meadow",
    prompt="a sunny green meadow with trees and painted towers",
    backdrop=Backdrop(
        zenith=(0.25, 0.50, 0.92),
        horizon=(0.78, 0.90, 0.98),
        ground=(0.22, 0.54, 0.18),
        ground_patch=(0.38, 0.67, 0.25),
        mountain=(0.38, 0.52, 0.62),
        sun=(1.0, 0.98, 0.75),
        sun_azimuth=0.7,
        phase=1.3,
        towers=(
            Tower(-2.6, 0.10, 0.42, (0.85, 0.20, 0.18)),
            Tower(-1.4, 0.16, 0.28, (0.95, 0.93, 0.90)),
            Tower(-0.3, 0.08, 0.50, (0.20, 0.35, 0.75)),
            Tower(1.7, 0.14, 0.34, (0.95, 0.75, 0.15)),
            Tower(2.5, 0.07, 0.46, (0.50, 0.25, 0.60)),
        ),
    ),
    parts=(
        *tree(-6.0, -5.5, BROWN, GREEN, (0.20, 0.58, 0.20)),
        *column(0.5, -6.5, RED, WHITE),
        *cone(6.5, -4.0, BROWN, YELLOW),
        *ball(-7.0, 1.0, BLUE, WHITE),
        *tree(1.0, 0.5, BROWN, PINK, (0.70, 0.30, 0.55)),
        *block(7.5, 3.5, WHITE, RED),
        *column(-3.5, 6.5, YELLOW, BLUE, 3.2, 0.9),
        *cone(3.0, 7.5, VIOLET, WHITE),
    ),
    spawns=(Spawn(-2.5, -2.0, -30), Spawn(4.0, 3.5, 60), Spawn(-4.0, 3.0, 150), Spawn(4.0, -7.5, 240)),
)

DESERT = Place(
    name="desert",
    title="Desert",
    prompt="a warm sandy desert with stone tents among dry dunes",
    backdrop=Backdrop(
        zenith=(0.30, 0.55, 0.85),
        horizon=(0.98, 0.85, 0.62),
        ground=(0.82, 0.58, 0.30),
        ground_patch=(0.93, 0.74, 0.46),
        mountain=(0.66, 0.38, 0.28),
        sun=(1.0, 0.97, 0.85),
        sun_azimuth=2.9,
        phase=2.1,
        towers=(
            Tower(-2.3, 0.20, 0.30, (0.45, 0.22, 0.16)),
            Tower(-1.2, 0.09, 0.48, (0.15, 0.50, 0.55)),
            Tower(0.1, 0.14, 0.36, (0.96, 0.94, 0.88)),
            Tower(1.1, 0.07, 0.46, (0.80, 0.25, 0.12)),
            Tower(1.9, 0.18, 0.24, (0.25, 0.22, 0.30)),
        ),
    ),
    parts=(
        *cone(-5.5, -6.5, WHITE, RUST),
        *ball(1.5, -5.5, RUST, DARK),
        *column(7.0, -6.0, (0.16, 0.50, 0.24), (0.30, 0.66, 0.30), 3.4, 0.6),
        *block(-7.5, 0.0, SLATE, ORANGE),
        *column(-1.0, 1.0, (0.20, 0.42, 0.72), WHITE),
        *tree(5.5, 0.5, DARK, (0.38, 0.46, 0.16), (0.26, 0.34, 0.12)),
        *cone(-4.0, 7.0, TEAL, ORANGE),
        *ball(3.5, 7.0, WHITE, SLATE),
    ),
    spawns=(Spawn(-2.5, -3.0, 0), Spawn(2.5, 3.5, 90), Spawn(-4.5, 3.5, 210), Spawn(5.0, -3.0, 300)),
)

NEON = Place(
    name="neon",
    title="Neon night",
    prompt="a neon city at night with glowing pillars",
    backdrop=Backdrop(
        zenith=(0.04, 0.02, 0.14),
        horizon=(0.36, 0.08, 0.40),
        ground=(0.06, 0.06, 0.18),
        ground_patch=(0.08, 0.32, 0.42),
        mountain=(0.14, 0.05, 0.24),
        sun=(0.95, 0.35, 0.75),
        sun_azimuth=-1.6,
        phase=0.4,
        towers=(
            Tower(-2.8, 0.09, 0.48, (0.90, 0.20, 0.65)),
            Tower(-0.6, 0.15, 0.34, (0.15, 0.85, 0.85)),
            Tower(0.3, 0.08, 0.50, (0.90, 0.80, 0.20)),
            Tower(1.2, 0.16, 0.30, (0.50, 0.25, 0.95)),
            Tower(2.2, 0.10, 0.44, (0.25, 0.90, 0.35)),
        ),
    ),
    parts=(
        *column(-6.5, -4.5, CYAN, MAGENTA),
        *cone(0.0, -7.0, MAGENTA, YELLOW),
        *ball(6.0, -6.0, LIME, SLATE),
        *tree(-2.5, -0.5, WHITE, CYAN, VIOLET),
        *block(4.0, 0.5, VIOLET, CYAN),
        *column(8.5, 2.5, YELLOW, ORANGE, 4.2, 0.5),
        *ball(-7.0, 4.5, ORANGE, MAGENTA),
        *cone(0.5, 6.5, CYAN, WHITE),
    ),
    spawns=(Spawn(-3.0, -4.0, 30), Spawn(1.0, 3.0, 120), Spawn(-5.0, 7.0, 180), Spawn(6.5, -2.0, 270)),
)

PLACES = (MEADOW, DESERT, NEON)
