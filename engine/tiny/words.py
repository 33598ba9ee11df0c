"""The words that choose a place."""

from __future__ import annotations

import numpy as np

from engine.tiny.places import PLACES

VOCABULARY: dict[str, tuple[str, ...]] = {
    "meadow": (
        "meadow",
        "grass",
        "green",
        "field",
        "trees",
        "sunny",
        "garden",
        "spring",
        "painted",
        "towers",
    ),
    "desert": ("desert", "sand", "sandy", "dunes", "dry", "warm", "hot", "stone", "tents", "rocks"),
    "neon": (
        "neon",
        "night",
        "city",
        "glowing",
        "pillars",
        "dark",
        "lights",
        "cyberpunk",
        "purple",
        "electric",
    ),
}
WORDS = tuple(word for place in PLACES for word in VOCABULARY[place.name])


def random_prompt(rng: np.random.Generator, place: int) -> str:
    """One to six of the place's words in any order."""
    words = VOCABULARY[PLACES[place].name]
    return " ".join(rng.permutation(words)[: rng.integers(1, 7)])
