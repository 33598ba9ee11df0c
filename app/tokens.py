"""Secrets that clients show: one token per session, and the operator's API keys."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable

from app.key_file import KeyFile
from app.refusals import Unauthorized


def new_token() -> str:
    """A fresh session token, 256 bits of randomness."""
    return secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """What is kept of a secret: its SHA-256, in hex (secrets are long and random, so no salt is needed)."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Keys:
    """The API keys, kept as digests only: those of the settings, and those of a file as it is now."""

    def __init__(self, keys: Iterable[str], file: KeyFile | None = None) -> None:
        self._fixed = tuple(digest(key) for key in keys)
        self._file = file

    @property
    def required(self) -> bool:
        """Whether clients must show a key at all; a file that holds none lets nobody in."""
        return bool(self._fixed) or self._file is not None

    def reload(self) -> None:
        """Read the file again."""
        if self._file is not None:
            self._file.reload()

    def owner(self, shown: str | None) -> str | None:
        """An id of the key that was shown; None where no key is required. Raises `Unauthorized`."""
        if not self.required:
            return None
        if shown is None:
            raise Unauthorized("an API key is required: `Authorization: Bearer KEY`, or the field `api_key`")
        given = digest(shown)
        digests = self._fixed if self._file is None else (*self._fixed, *self._file.digests())
        matches = [hmac.compare_digest(given, known) for known in digests]  # all, in constant time
        if not any(matches):
            raise Unauthorized("the API key is not known")
        return given[:16]


def check_token(shown: str | None, known: str | None) -> None:
    """Compare with the kept digest, in constant time. Raises `Unauthorized`."""
    if shown is None:
        raise Unauthorized("the session's token is required, in the field `token`")
    if known is None or not hmac.compare_digest(digest(shown), known):
        raise Unauthorized("the token is not this session's")
