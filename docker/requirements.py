"""Prints the project's dependencies, and those of the extras that are named, one a line."""

import sys
import tomllib
from pathlib import Path


def requirements(project: dict, extras: list[str]) -> list[str]:
    """What pip is to install; an unknown extra is a `KeyError`."""
    named = [line for extra in extras for line in project["optional-dependencies"][extra]]
    return [*project["dependencies"], *named]


if __name__ == "__main__":
    described = tomllib.loads(Path("pyproject.toml").read_text())
    sys.stdout.write("\n".join(requirements(described["project"], sys.argv[1:])) + "\n")
