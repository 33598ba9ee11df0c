"""`worldline train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from app.bootstrap import train_codec, train_decoder, train_world

train = typer.Typer(
    help="Train the tiny world anew. All programs show progress, save often, and resume where they were.",
    no_args_is_help=True,
)

Run = Annotated[Path | None, typer.Option(help="Folder of the resumable state and the result.")]
Steps = Annotated[
    int | None, typer.Option(min=1, help="Training steps; by default as the shipped weights took.")
]
Threads = Annotated[int | None, typer.Option(min=1, help="Compute threads.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Same seed, same weights, on the same machine.")]


@train.command("codec", short_help="Train the codec (about ten minutes on two cores).")
def codec(run: Run = None, steps: Steps = None, threads: Threads = None, seed: Seed = None) -> None:
    """Train the codec on random walks (about ten minutes on two cores)."""
    typer.echo(train_codec(_given(run=run, steps=steps, threads=threads, seed=seed)))


@train.command("world", short_help="Train the world model (hours on two cores).")
def world(
    codec: Annotated[Path | None, typer.Option(help="The trained codec's weights.")] = None,
    run: Run = None,
    steps: Steps = None,
    threads: Threads = None,
    seed: Seed = None,
) -> None:
    """Train the world model on latents of the trained codec (hours on two cores)."""
    typer.echo(train_world(_given(codec=codec, run=run, steps=steps, threads=threads, seed=seed)))


@train.command("decoder", short_help="Sharpen the codec's decoder (after the other two).")
def decoder(
    codec: Annotated[Path | None, typer.Option(help="The trained codec's weights.")] = None,
    world: Annotated[Path | None, typer.Option(help="The trained world model's state.")] = None,
    run: Run = None,
    steps: Steps = None,
    threads: Threads = None,
    seed: Seed = None,
) -> None:
    """Train the codec's decoder to draw sharply what the world model makes (after the other two)."""
    typer.echo(
        train_decoder(_given(codec=codec, world=world, run=run, steps=steps, threads=threads, seed=seed))
    )


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
