"""`worldline settings`."""

from __future__ import annotations

from typing import Any

import typer

from app.settings import Settings


def option(name: str) -> Any:
    """A command's option that means what the setting `name` means, from the same environment variable."""
    return typer.Option(help=Settings.model_fields[name].description, envvar=f"WORLDLINE_{name.upper()}")


def settings() -> None:
    """List every setting: its environment variable, its default, and what it does."""
    for name, info in Settings.model_fields.items():
        default = "" if info.default is None or info.default == () else f" [{info.default}]"
        typer.echo(f"WORLDLINE_{name.upper()}{default}\n    {info.description}")
