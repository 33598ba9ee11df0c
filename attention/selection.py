"""Which backend serves a request: exact role, role category, default, platform default, in that order."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

from attention.backends import BACKENDS
from attention.backends.base import Backend
from attention.capabilities import Needs
from attention.declaration import Declaration
from attention.errors import BackendRefused, BackendUnavailable

FALLBACKS = ("sdpa", "math")
"""What serves where the platform's own choice can't, in this order."""


class BackendFallback(UserWarning):
    """The platform's own choice could not serve a request, so another did."""


@dataclass(frozen=True, slots=True)
class BackendPolicy:
    """Backend names by exact role, by role category and by default.

    None leaves the choice to the platform.
    """

    roles: Mapping[str, str] = field(default_factory=dict)
    categories: Mapping[str, str] = field(default_factory=dict)
    default: str | None = None

    def choice(self, declaration: Declaration) -> tuple[str, str] | None:
        """The backend's name and what chose it; None where the platform decides."""
        if declaration.role in self.roles:
            return self.roles[declaration.role], f"role {declaration.role}"
        if declaration.category in self.categories:
            return self.categories[declaration.category], f"category {declaration.category}"
        return None if self.default is None else (self.default, "default")


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """What was chosen for a geometry, by what, and (after a fallback) instead of what and why."""

    backend: str
    chosen_by: str
    instead_of: str | None = None
    reason: str | None = None


class Selector:
    """One layer's choice of backends. An explicit choice is held against the declaration at once.

    Raises `BackendUnavailable` and `BackendRefused` where an explicit choice can't serve the layer.
    """

    def __init__(
        self,
        declaration: Declaration,
        policy: BackendPolicy | None = None,
        backends: Mapping[str, Backend] = BACKENDS,
    ) -> None:
        self._declaration = declaration
        self._backends = backends
        self._explicit = (policy or BackendPolicy()).choice(declaration)
        self._warned: set[tuple[str, str]] = set()
        if self._explicit is not None:
            self._check_explicit(self._explicit[0])

    def select(self, needs: Needs) -> tuple[Backend, ResolvedPath]:
        """The backend for requests of this geometry.

        An explicit choice that can't serve raises `BackendRefused`; an automatic one falls back, with one
        warning for each reason.
        """
        if self._explicit is not None:
            name, chosen_by = self._explicit
            missing = self._backends[name].capabilities.missing(needs)
            if missing is not None:
                raise BackendRefused(name, f"it lacks {missing}")
            return self._backends[name], ResolvedPath(name, chosen_by)
        first = self._platform_default(needs)
        reason = self._missing(first, needs)
        if reason is None:
            return self._backends[first], ResolvedPath(first, "platform")
        return self._fall_back(first, reason, needs)

    def _check_explicit(self, name: str) -> None:
        if name not in self._backends:
            known = ", ".join(self._backends)
            raise BackendUnavailable(name, f"there is none of that name (there are {known})")
        reason = self._backends[name].unavailable()
        if reason is not None:
            raise BackendUnavailable(name, reason)
        missing = self._backends[name].capabilities.missing_for(self._declaration)
        if missing is not None:
            raise BackendRefused(name, f"it lacks {missing}")

    def _platform_default(self, needs: Needs) -> str:
        flash = self._backends.get("flash")
        if needs.device.type == "cuda" and flash is not None and flash.unavailable() is None:
            return "flash"
        return "sdpa"

    def _missing(self, name: str, needs: Needs) -> str | None:
        able = self._backends[name].capabilities
        return able.missing_for(self._declaration) or able.missing(needs)

    def _fall_back(self, first: str, reason: str, needs: Needs) -> tuple[Backend, ResolvedPath]:
        others = [name for name in FALLBACKS if name != first and name in self._backends]
        able = [name for name in others if self._missing(name, needs) is None]
        if not able:
            raise BackendRefused(first, f"it lacks {reason}, and no other backend has it")
        if (first, reason) not in self._warned:
            self._warned.add((first, reason))
            message = f"attention role {self._declaration.role!r}: {first} lacks {reason}; using {able[0]}"
            warnings.warn(message, BackendFallback, stacklevel=1)  # from one place: shown once per role
        return self._backends[able[0]], ResolvedPath(able[0], "fallback", first, reason)
