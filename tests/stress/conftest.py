"""Long runs, each with a short form. `make stress` runs the long ones, which are marked slow."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS / "engine" / "native"))  # small_checkpoint
