"""The command `worldline`."""

from __future__ import annotations

import signal
import sys

import typer

from app.commands.capacity import capacity
from app.commands.generate import generate
from app.commands.keys import keys
from app.commands.replay import replay
from app.commands.serve import serve
from app.commands.sessions import sessions
from app.commands.settings import settings
from app.commands.train import train
from app.commands.verify import verify

cli = typer.Typer(
    name="worldline",
    help="Serve playable generated worlds.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its tables cut long names on a narrow terminal
)
cli.command(short_help="Serve sessions, and the demo that plays them.")(serve)
cli.command(short_help="Make a video without a server.")(generate)
cli.command(short_help="List the sessions in a data directory.")(sessions)
cli.command(short_help="Compute a session again, and compare every frame.")(replay)
cli.command(short_help="List every setting of the server.")(settings)
cli.command(short_help="Recompute golden files, and print the differences.")(verify)
cli.command(short_help="Plan how many sessions fit into memory.")(capacity)
cli.add_typer(train, name="train")
cli.add_typer(keys, name="keys")


def main() -> None:
    """The console script. A command that is terminated cleans up, as one that is interrupted does."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    cli()


if __name__ == "__main__":
    main()
