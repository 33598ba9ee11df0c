"""The errors of this package: what a caller did that the rules of the caches forbid."""

from __future__ import annotations


class CacheError(Exception):
    """Base of every error of this package.

    CacheError
    +- GeometryRefused    sizes that no view can be built for: names the field
    +- CapacityError      not even one session fits: carries available and required bytes
    +- OutOfPages         the pool holds fewer free pages than were asked for
    +- OutOfMemory        every session is busy, so that none can be evicted for another
    +- CleanupFailed      a release raised: the owner is a tombstone until a retried close succeeds
    +- LedgerError        a fact that the rules do not allow
    |  +- OwnerTombstoned   the owner's cleanup failed; its id is blocked until a retried close succeeds
    |  +- OwnerClosed       no such open owner
    |  +- OwnerExists       the owner is open already
    |  +- Superseded        the build was overtaken by a newer one, by an invalidation or by a close
    |  +- StillLeased       released while readers hold leases
    |  +- StillHeld         closed while resources are not released
    +- IncompleteBuild    a publication that lacks a layer or has another shape than its identity says
    +- RestoreRefused     a saved state that does not fit the view: names what differs
    """


class GeometryRefused(CacheError):
    """A size is out of range. `field` names it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class CapacityError(CacheError):
    """Not even one session fits: `required` bytes are needed and `available` are there."""

    def __init__(self, available: int, required: int) -> None:
        super().__init__(available, required)
        self.available = available
        self.required = required

    def __str__(self) -> str:
        return f"not even one session fits: available={self.available}, required={self.required} bytes"


class OutOfPages(CacheError):
    """The pool has fewer free pages than were asked for."""


class OutOfMemory(CacheError):
    """No room for another owner, and none that could be evicted."""


class CleanupFailed(CacheError):
    """A release raised `cause`; the owner's id is blocked until a retried close succeeds."""

    def __init__(self, owner: str, cause: str) -> None:
        super().__init__(owner, cause)
        self.owner = owner
        self.cause = cause

    def __str__(self) -> str:
        return f"{self.owner!r} could not be released: {self.cause}"


class LedgerError(CacheError):
    """A fact that the ledger's rules do not allow."""


class OwnerTombstoned(LedgerError):
    """Cleanup failed; the owner's id is blocked until a retried close succeeds."""


class OwnerClosed(LedgerError):
    """The owner was never opened, is closing, or is closed."""


class OwnerExists(LedgerError):
    """The owner is open already."""


class Superseded(LedgerError):
    """A newer build, an invalidation or a close overtook this generation."""


class StillLeased(LedgerError):
    """Readers hold leases on what should be released."""


class StillHeld(LedgerError):
    """Resources are not released yet."""


class IncompleteBuild(CacheError):
    """A publication without every layer, or of another shape than its identity says."""


class RestoreRefused(CacheError):
    """A saved state that does not fit."""
