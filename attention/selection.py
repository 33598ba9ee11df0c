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


class BackendFallback(UserWarning):
    """The platform's own choice could not serve a request, so sdpa did."""


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


def resolve(
    declaration: Declaration,
    needs: Needs,
    policy: BackendPolicy,
    backends: Mapping[str, Backend] = BACKENDS,
) -> tuple[Backend, ResolvedPath]:
    """Choose a backend.

    An explicit choice that can't serve raises `BackendRefused`; an automatic one falls back.
    """
    explicit = policy.choice(declaration)
    if explicit is not None:
        name, chosen_by = explicit
        if name not in backends:
            raise BackendUnavailable(name, f"there is none of that name (there are {', '.join(backends)})")
        reason = backends[name].unavailable()
        if reason is not None:
            raise BackendUnavailable(name, reason)
        missing = backends[name].capabilities.missing(needs)
        if missing is not None:
            raise BackendRefused(name, f"it lacks {missing}")
        return backends[name], ResolvedPath(name, chosen_by)
    name = "flash" if needs.device.type == "cuda" and backends["flash"].unavailable() is None else "sdpa"
    missing = backends[name].capabilities.missing(needs)
    if missing is None:
        return backends[name], ResolvedPath(name, "platform")
    lacking = backends["sdpa"].capabilities.missing(needs)
    if lacking is not None:
        raise BackendRefused("sdpa", f"it lacks {lacking}")
    message = f"attention role {declaration.role!r}: {name} lacks {missing}; using sdpa"
    warnings.warn(message, BackendFallback, stacklevel=4)
    return backends["sdpa"], ResolvedPath("sdpa", "fallback", name, missing)
