"""The command `worldline`."""

from __future__ import annotations

import typer

from app.commands.capacity import capacity
from app.commands.generate import generate
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
)
cli.command()(serve)
cli.command()(generate)
cli.command()(sessions)
cli.command()(replay)
cli.command()(settings)
cli.command()(verify)
cli.command()(capacity)
cli.add_typer(train, name="train")


def main() -> None:
    """The console script."""
    cli()


if __name__ == "__main__":
    main()
