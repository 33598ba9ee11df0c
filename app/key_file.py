"""The file of API keys: digests only, read again whenever it changes."""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

log = logging.getLogger("worldline")

Stamp = tuple[int, int, int]  # when it changed, its size, which file


class KeyFileRefused(Exception):
    """The file is not there, or is no file of keys. Says which and why."""


class KeyEntry(BaseModel):
    """One key: never itself, only its SHA-256 in hex."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    created: float = Field(description="Unix seconds.")
    revoked: bool = False


class KeyList(BaseModel):
    """What the file holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keys: tuple[KeyEntry, ...] = ()


def read_keys(path: Path) -> KeyList:
    """Raises `KeyFileRefused`."""
    try:
        return KeyList.model_validate_json(path.read_bytes())
    except OSError as error:
        raise KeyFileRefused(f"{path} can't be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise KeyFileRefused(f"{path} is no file of keys: {place}: {first['msg']}") from None


def change_keys(path: Path, change: Callable[[KeyList], KeyList]) -> None:
    """Read the file, which may be missing, and write what `change` makes of it; others wait until then.

    Raises `KeyFileRefused`, also with what `change` raises.
    """
    try:
        folder = os.open(path.resolve().parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            _write(path, change(read_keys(path) if path.exists() else KeyList()))
        finally:
            os.close(folder)
    except OSError as error:
        raise KeyFileRefused(f"{path} can't be written: {error.strerror}") from None


def _write(path: Path, keys: KeyList) -> None:
    """All or nothing; a new file is readable by its owner alone, another stays whose it was, so that the
    server can read it, whoever adds a key.
    """
    path = path.resolve()  # a link stays one
    handle, fresh = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            with suppress(FileNotFoundError):
                _keep_access(handle, path.stat())
            file.write(keys.model_dump_json(indent=1) + "\n")
        Path(fresh).replace(path)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise


def _keep_access(handle: int, before: os.stat_result) -> None:
    os.fchmod(handle, stat.S_IMODE(before.st_mode))
    now = os.fstat(handle)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        os.fchown(handle, before.st_uid, before.st_gid)


def added(keys: KeyList, name: str, digest: str) -> KeyList:
    """With one more key. Raises `KeyFileRefused` where the name is taken."""
    if any(key.name == name and not key.revoked for key in keys.keys):
        raise KeyFileRefused(f"there is a key {name!r} already: revoke it first, or choose another name")
    return KeyList(keys=(*keys.keys, KeyEntry(name=name, sha256=digest, created=time.time())))


def revoked(keys: KeyList, name: str) -> KeyList:
    """Without the key of this name. Raises `KeyFileRefused` where there is none."""
    if not any(key.name == name and not key.revoked for key in keys.keys):
        raise KeyFileRefused(f"there is no key {name!r} that is not revoked")
    changed = (key.model_copy(update={"revoked": True}) if key.name == name else key for key in keys.keys)
    return KeyList(keys=tuple(changed))


class KeyFile:
    """The digests of a file's keys. A file that breaks meanwhile changes nothing, and is logged once.

    Raises `KeyFileRefused` where it is broken from the start.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._stamp()
        self._digests = _digests(read_keys(path))

    def digests(self) -> tuple[str, ...]:
        """Of the keys that are not revoked, as the file says now."""
        if self._stamp() != self._seen:
            self.reload()
        return self._digests

    def reload(self) -> None:
        """Read it again, whether it seems to have changed or not."""
        self._seen = self._stamp()
        try:
            self._digests = _digests(read_keys(self._path))
        except KeyFileRefused as refused:
            log.error("the API keys stay as they were: %s", refused)
        else:
            log.info("%d API keys are in force, from %s", len(self._digests), self._path)

    def _stamp(self) -> Stamp | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def _digests(keys: KeyList) -> tuple[str, ...]:
    return tuple(key.sha256 for key in keys.keys if not key.revoked)
