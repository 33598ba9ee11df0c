"""The attention kernels, one module each, and their names."""

from __future__ import annotations

from collections.abc import Mapping

from attention.backends.base import Backend
from attention.backends.flash import FlashBackend
from attention.backends.math import MathBackend
from attention.backends.sdpa import SdpaBackend

BACKENDS: Mapping[str, Backend] = {
    backend.name: backend for backend in (MathBackend(), SdpaBackend(), FlashBackend())
}
