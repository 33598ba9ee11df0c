"""`worldline capacity`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from app.bootstrap import CapacityRefused, plan_capacity

MAX_CHARACTERS: Final = 65_536


def capacity(
    geometry: Annotated[
        Path,
        typer.Option(
            help="JSON object: layers, kv_heads, head_dim, dtype, tokens_per_frame, sink_frames, "
            "window_frames, frames_per_block; also branches, cross_tokens, model_state_bytes, "
            "max_scratch_tokens.",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            readable=True,
        ),
    ],
    available: Annotated[int, typer.Option(help="Memory that is there.", metavar="BYTES", min=0)],
    fraction: Annotated[float, typer.Option(help="Share of it to use, above 0 and at most 1.")] = 0.8,
    requested: Annotated[int, typer.Option(help="Sessions asked for.", min=1)] = 1,
) -> None:
    """Plan how many sessions fit into memory, and print the plan as one JSON line.

    Exit status 1, and the reason, where not even one session fits.

    Example: worldline capacity --geometry lingbot.json --available 107374182400 --fraction 0.6 --requested 4
    """
    try:
        with geometry.open(errors="replace") as file:
            text = file.read(MAX_CHARACTERS)  # a device may never end
        plan = plan_capacity(text, available, fraction, requested)
    except CapacityRefused as refused:
        typer.echo(f"{geometry}: {refused}", err=True)
        raise typer.Exit(1) from None
    typer.echo(plan)
