"""What a codec decodes, as pixels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, uint8


def pixels_of(frames: Tensor) -> NDArray[np.uint8]:
    """RGB in -1..1 [1, n, 3, H, W] on any device -> [n, H, W, 3]."""
    pixels = frames[0].clamp(-1, 1).mul(0.5).add_(0.5).mul_(255).round_().to(uint8)
    return pixels.permute(0, 2, 3, 1).contiguous().cpu().numpy()
