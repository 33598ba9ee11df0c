"""A process that writes files until it is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def killed_after(lines: int, program: str, folder: Path) -> int:
    """The number in the last of so many lines that a program wrote before it was killed."""
    command = [sys.executable, "-c", program, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as writer:
        assert writer.stdout is not None
        done = [int(writer.stdout.readline()) for _ in range(lines)][-1]
        writer.kill()
    return done
