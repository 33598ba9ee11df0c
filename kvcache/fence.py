"""Order between the stream that wrote a value and those that read it.

Does nothing where there are no streams.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


class ReadyFence:
    """Recorded after a value is written.

    Readers on other streams wait for it on the device, not on the host.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._event: torch.cuda.Event | None = None

    def record(self) -> None:
        """All that was queued on the current stream so far makes the value ready."""
        if self._device.type == "cuda":
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record(torch.cuda.current_stream(self._device))

    def wait(self, tensors: Iterable[Tensor]) -> None:
        """Let the current stream read `tensors`, and keep their memory until it has."""
        if self._event is None:
            return
        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(self._event)
        for tensor in tensors:
            tensor.record_stream(stream)
