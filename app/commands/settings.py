"""`worldline settings`."""

from __future__ import annotations

import typer

from app.settings import Settings


def settings() -> None:
    """List every setting: its environment variable, its default, and what it does."""
    for name, info in Settings.model_fields.items():
        default = "" if info.default is None or info.default == () else f" [{info.default}]"
        typer.echo(f"WORLDLINE_{name.upper()}{default}\n    {info.description}")
