"""One server per data directory: whoever has the lock may write there."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

NAME = "server.lock"


class DataInUse(Exception):
    """Another server uses the data directory. Says which one."""


class DataLock:
    """Held until `release`, or the end of the process, however that comes about."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._file: int | None = None

    def acquire(self) -> None:
        """Make the folder where it is missing, and lock it. Raises `DataInUse`, `OSError`."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(file, 32).decode(errors="replace").strip() or "unknown"
            os.close(file)
            raise DataInUse(
                f"{self._path.parent} is in use by another server (process {holder}): "
                "stop it, or choose another directory with --data"
            ) from None
        os.truncate(file, 0)
        os.write(file, f"{os.getpid()}\n".encode())
        self._file = file

    def release(self) -> None:
        """Let others have it; idempotent."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
