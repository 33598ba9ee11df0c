"""Every refusal of the attention contract.

AttentionError              base; a caller's mistake, never ours
+- RequestRefused           an argument of a call or a declaration breaks the contract
|  +- MaskRefused           the contents or the shape of a mask break it
+- BackendRefused           an explicitly chosen backend lacks a capability that the request needs
   +- BackendUnavailable    it can't run on this machine at all
"""

from __future__ import annotations


class AttentionError(Exception):
    """Base of every error of this package."""


class RequestRefused(AttentionError, ValueError):
    """An argument breaks the contract: names it, what was expected and what came."""

    def __init__(self, argument: str, expected: str, came: object) -> None:
        super().__init__(argument, expected, came)
        self.argument = argument
        self.expected = expected
        self.came = came

    def __str__(self) -> str:
        return f"{self.argument}: expected {self.expected}, got {self.came}"


class MaskRefused(RequestRefused):
    """The contents or the shape of a mask break the contract."""


class BackendRefused(AttentionError):
    """A backend that was chosen by configuration can't serve the request; names the missing capability."""

    def __init__(self, backend: str, missing: str) -> None:
        super().__init__(backend, missing)
        self.backend = backend
        self.missing = missing

    def __str__(self) -> str:
        return f"attention backend {self.backend!r} can't serve this request: {self.missing}"


class BackendUnavailable(BackendRefused):
    """The backend can't run here: its library or its device is missing, or there is none of that name."""
