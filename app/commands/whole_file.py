"""Files that a command makes: whole, or not there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path


class NotWritable(Exception):
    """A file can't be made: names it, and says why."""


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A file beside `path` that takes its place if it is finished, and vanishes if it is not: what was there
    before stays until then. Raises `NotWritable`.
    """
    target = _target(path)
    part = target.with_name(target.name + ".part")
    try:
        yield part
        part.replace(target)
    except OSError as error:
        raise NotWritable(f"{path}: can't be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def require_writable(outputs: Sequence[Path | None], inputs: Sequence[Path | None] = ()) -> None:
    """Before the work begins: every output is a file of its own, in a folder that can be written to. Raises
    `NotWritable`.
    """
    taken = {path.resolve() for path in inputs if path is not None}
    for path in outputs:
        if path is None:
            continue
        target = _target(path)
        if not target.parent.is_dir() or target.is_dir():
            raise NotWritable(f"{path}: can't be written: no such folder, or it is one itself")
        if target.exists() and not target.is_file():
            raise NotWritable(f"{path}: can't be written: it is not a regular file")
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise NotWritable(f"{path}: can't be written: its folder allows no new files")
        if target in taken:
            raise NotWritable(f"{path}: is given twice, and would be overwritten")
        taken.add(target)


def _target(path: Path) -> Path:
    """What a link leads to: that is replaced, and not the link."""
    try:
        path.stat()
    except FileNotFoundError:
        pass  # it is made
    except OSError as error:  # links that lead to each other, for one
        raise NotWritable(f"{path}: can't be written: {error.strerror}") from error
    return path.resolve()
