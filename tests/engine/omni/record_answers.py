"""Record what the installed vLLM-Omni answers to Worldline's own requests: answers.json, answers.safetensors.

    PYTHONPATH=.:tests/engine/omni/on_cpu python -m tests.engine.omni.record_answers FOLDER

Its `AsyncOmni` runs whole, in processes of its own, on a CPU, with a small random checkpoint.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from safetensors.torch import save_file

from tests.engine.omni.installed_omni import InstalledBackstage
from tests.engine.omni.recorded_cases import STARTS, Start
from tests.engine.omni.recorded_run import Run
from tests.engine.omni.recording import Notes
from tests.engine.omni.small_lingbot import write_lingbot

PACKAGES: Final = ("vllm-omni", "vllm", "torch", "diffusers", "transformers")


def main(folder: Path) -> None:
    """One start of vLLM-Omni after the other."""
    checkpoint, notes = write_lingbot(folder / "checkpoint"), Notes()
    starts = {name: record(checkpoint, start, notes) for name, start in STARTS.items()}
    about = {
        "versions": {name: version(name) for name in PACKAGES},
        "output_attributes": notes.attributes,
    }
    write(folder / "answers.json", about, starts)
    save_file(notes.tensors, folder / "answers.safetensors")


def record(checkpoint: Path, start: Start, notes: Notes) -> dict[str, Any]:
    run = Run(checkpoint, InstalledBackstage(), start, notes)
    run.play()
    return {"deployment": run.deployed, "cases": run.cases}


def write(path: Path, about: dict[str, Any], starts: dict[str, dict[str, Any]]) -> None:
    """A line per case."""
    parts = []
    for name, start in starts.items():
        cases = ",\n".join(json.dumps(case, separators=(",", ":")) for case in start["cases"])
        head = f'{json.dumps(name)}: {{"deployment": {json.dumps(start["deployment"])}, "cases": [\n'
        parts.append(f"{head}{cases}\n]}}")
    text = json.dumps(about, indent=1)[:-2] + ',\n "starts": {\n' + ",\n".join(parts) + "\n}}\n"
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
