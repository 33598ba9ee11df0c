"""`worldline keys`: the API keys in a file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from app.key_file import KeyFileRefused, added, change_keys, read_keys, revoked
from app.tokens import digest, new_token

keys = typer.Typer(
    name="keys",
    help="Add, list and revoke the API keys in a file. A server that reads it needs no restart.",
    no_args_is_help=True,
)

FileOption = Annotated[Path, typer.Option("--file", help="The file.", envvar="WORLDLINE_API_KEYS_FILE")]
Name = Annotated[str, typer.Argument(help="What the key is called in lists: letters, digits, `_`, `.`, `-`.")]


@keys.command()
def add(name: Name, file: FileOption = Path("keys.json")) -> None:
    """Make a key and print it, once: the file keeps its digest alone."""
    key = new_token()
    try:
        change_keys(file, lambda known: added(known, name, digest(key)))
    except KeyFileRefused as refused:
        raise _refused(refused) from None
    except ValueError:
        raise typer.BadParameter(f"letters, digits, `_`, `.`, `-`; got {name!r}", param_hint="NAME") from None
    typer.echo(key)


@keys.command("list")
def list_keys(file: FileOption = Path("keys.json")) -> None:
    """Show names and states."""
    try:
        known = read_keys(file).keys
    except KeyFileRefused as refused:
        raise _refused(refused) from None
    table = Table("name", "owner id", "created", "state")
    for key in known:
        created = datetime.fromtimestamp(key.created, UTC).strftime("%Y-%m-%d %H:%M:%S")
        table.add_row(key.name, key.sha256[:16], created, "revoked" if key.revoked else "active")
    Console().print(table if known else "No keys.")


@keys.command()
def revoke(name: Name, file: FileOption = Path("keys.json")) -> None:
    """Let a key open nothing any more. Streams that it plays go on to their end."""
    try:
        read_keys(file)  # a file that is not there is told as such
        change_keys(file, lambda known: revoked(known, name))
    except KeyFileRefused as refused:
        raise _refused(refused) from None
    typer.echo(f"{name} is revoked")


def _refused(refused: KeyFileRefused) -> typer.Exit:
    typer.echo(f"worldline keys: {refused}", err=True)
    return typer.Exit(2)
