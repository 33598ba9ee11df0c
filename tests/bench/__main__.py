"""Run benchmarks: all of them, or those named. Each prints JSON lines; each has a process of its own.

python -m tests.bench [NAME ...]
"""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def names() -> list[str]:
    """Every module beside this one that has a `main`."""
    files = (path for path in sorted(HERE.glob("*.py")) if not path.stem.startswith("_"))
    return [path.stem for path in files if "\ndef main(" in path.read_text()]


def run(name: str) -> bool:
    """Whether `main` of the benchmark `name` ran to its end."""
    program = f"from tests.bench.{name} import main; main()"
    done = subprocess.run([sys.executable, "-c", program], cwd=HERE.parent.parent, check=False)
    if done.returncode:
        sys.stdout.write(json.dumps({"bench": name, "error": f"ended with status {done.returncode}"}) + "\n")
        sys.stdout.flush()
    return done.returncode == 0


def main(asked: list[str]) -> int:
    """Run `asked`, or everything. Returns the exit status."""
    known = names()
    unknown = [name for name in asked if name not in known]
    if unknown:
        sys.stderr.write(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(known)}\n")
        return 2
    failed = [name for name in asked or known if not run(name)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
