"""Marks that survive encoding: a number that a program can read back, and the keys that are held."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

GLYPHS: Final = {
    "0": "111101101101111",
    "1": "010110010010111",
    "2": "111001111100111",
    "3": "111001111001111",
    "4": "101101111001001",
    "5": "111100111001111",
    "6": "111100111101111",
    "7": "111001001001001",
    "8": "111101111101111",
    "9": "111101111001111",
    "a": "010101111101101",
    "d": "110101101101110",
    "i": "111010010010111",
    "j": "001001001101111",
    "k": "101101110101101",
    "l": "100100100100111",
    "s": "011100010001110",
    "w": "101101101111101",
}
DIGITS: Final = 5  # a counter is drawn with leading zeros
KEYS: Final = (("w", "a", "s", "d"), ("i", "j", "k", "l"))

_ROWS, _COLUMNS = 5, 3


def cell_size(width: int) -> int:
    """Pixels per glyph cell in a picture `width` pixels wide."""
    return max(2, width // 48)


def draw_number(frame: NDArray[np.uint8], number: int) -> None:
    """White digits on black in the upper left corner of RGB [H, W, 3], in place."""
    cell = cell_size(frame.shape[1])
    for place, digit in enumerate(f"{number % 10**DIGITS:0{DIGITS}d}"):
        _draw_glyph(frame, digit, cell, cell + place * (_COLUMNS + 1) * cell, cell, lit=True)


def read_number(frame: NDArray[np.uint8]) -> int:
    """The number drawn in a (decoded) frame. Raises `ValueError` where there is none."""
    cell = cell_size(frame.shape[1])
    return int("".join(_read_digit(frame, cell, place) for place in range(DIGITS)))


def draw_keys(frame: NDArray[np.uint8], held: Collection[str]) -> None:
    """WASD in the lower left and IJKL in the lower right corner; held keys are bright."""
    height, width = frame.shape[:2]
    cell = max(1, cell_size(width) // 2)
    pitch = (_COLUMNS + 2) * cell
    top = height - (_ROWS + 2) * cell
    for keys, left in zip(KEYS, (cell, width - 4 * pitch), strict=True):
        for place, key in enumerate(keys):
            _draw_glyph(frame, key, top, left + place * pitch, cell, lit=key in held)


def _draw_glyph(frame: NDArray[np.uint8], symbol: str, top: int, left: int, cell: int, *, lit: bool) -> None:
    bottom, right = top + (_ROWS + 1) * cell, left + (_COLUMNS + 1) * cell
    if top < cell or left < cell or bottom > frame.shape[0] or right > frame.shape[1]:
        return  # a picture too small for all marks has those that fit
    box = frame[top - cell : bottom, left - cell : right]
    box[:] = 0
    frame[top : top + _ROWS * cell, left : left + _COLUMNS * cell] = _ink(symbol, cell, 255 if lit else 70)


@lru_cache(512)  # a dozen are drawn on every frame
def _ink(symbol: str, cell: int, brightness: int) -> NDArray[np.uint8]:
    """A glyph as it is drawn, [H, W, 1]."""
    bitmap = np.array([int(bit) for bit in GLYPHS[symbol]], np.uint8).reshape(_ROWS, _COLUMNS)
    ink: NDArray[np.uint8] = np.kron(bitmap, np.ones((cell, cell), np.uint8))[..., None] * np.uint8(
        brightness
    )
    ink.flags.writeable = False
    return ink


def _read_digit(frame: NDArray[np.uint8], cell: int, place: int) -> str:
    left = cell + place * (_COLUMNS + 1) * cell
    patch = frame[cell : cell + _ROWS * cell, left : left + _COLUMNS * cell].mean(axis=2)
    cells = patch.reshape(_ROWS, cell, _COLUMNS, cell).mean(axis=(1, 3)) > 127
    bits = "".join("1" if lit else "0" for lit in cells.ravel())
    for digit in "0123456789":
        if GLYPHS[digit] == bits:
            return digit
    raise ValueError(f"no digit at place {place}: {bits}")
