"""Whether a source tensor is still what a value was made from."""

from __future__ import annotations

import hashlib
import weakref

import torch
from torch import Tensor


class SourceGuard:
    """Remembers one tensor and its contents, without keeping it alive.

    An address or a storage fingerprint alone is never enough: memory is used again. So the tensor itself
    must still be there, and its version counter where it was; a tensor without one (made in inference mode)
    is compared by content digest. Writes that bypass torch (through numpy, or `tensor.data`) raise no
    version, and are not seen.
    """

    def __init__(self, source: Tensor) -> None:
        self._source = weakref.ref(source)
        self._mark = _mark(source)

    def holds(self, source: Tensor | None = None) -> bool:
        """Whether the remembered tensor is alive and unchanged and.

        Where one is given, is `source` itself.
        """
        ours = self._source()
        if ours is None or (source is not None and source is not ours):
            return False
        return _mark(ours) == self._mark


def digest(tensor: Tensor) -> str:
    """SHA-256 of a tensor's dtype, shape and contents; copies it to the host."""
    plain = tensor.detach().contiguous().cpu()
    state = hashlib.sha256(f"{plain.dtype} {tuple(plain.shape)}".encode())
    state.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    return state.hexdigest()


def _mark(source: Tensor) -> tuple[int, str]:
    if source.is_inference():
        return (-1, digest(source))
    return (source._version, "")
