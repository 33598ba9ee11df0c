"""Run what only a CUDA device can show, in one short command: `make gpu-test`, or `python -m tests.gpu`.

Prints what it ran on, so that a kept output says what it is of. Ends with status 1 where there is no device:
there, the same tests are skipped in the whole suite.
"""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("torch", "flash-attn", "diffusers", "transformers")


def main(options: list[str]) -> int:
    """Give `options` to pytest. Returns the exit status."""
    if not torch.cuda.is_available():
        sys.stderr.write("there is no CUDA device here\n")
        return 1
    memory = torch.cuda.get_device_properties(0).total_memory
    sys.stdout.write(f"{torch.cuda.get_device_name()}, {memory} bytes, CUDA {torch.version.cuda}\n")
    sys.stdout.write(", ".join(f"{name} {installed(name)}" for name in PACKAGES) + "\n")
    sys.stdout.flush()
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*_on_gpu.py"))
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-rs", "--durations=10", *files, *options]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def installed(name: str) -> str:
    """Its version."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "(missing)"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
