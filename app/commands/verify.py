"""`worldline verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.bootstrap import VerifyRefused, verify_camera, verify_golden


def verify(
    golden: Annotated[
        Path | None,
        typer.Option(
            help="Recompute a transformer's golden: PREFIX.json and PREFIX.safetensors.", metavar="PREFIX"
        ),
    ] = None,
    camera: Annotated[
        Path | None, typer.Option(help="Recompute a camera's golden, the same way.", metavar="PREFIX")
    ] = None,
) -> None:
    """Recompute golden files with the classes that serve, and print the largest differences.

    One JSON line each, with null for a difference that is not finite. Exit status 1 where one is beyond its
    tolerance, 2 where a file can't be read.

    Example: worldline verify --golden tests/data/lingbot_a --camera tests/data/camera
    """
    if golden is None and camera is None:
        raise typer.BadParameter("give --golden PREFIX, --camera PREFIX, or both")
    try:
        reports = [] if golden is None else [verify_golden(golden)]
        reports += [] if camera is None else [verify_camera(camera)]
    except VerifyRefused as refused:
        typer.echo(f"worldline verify: {refused}", err=True)
        raise typer.Exit(2) from None
    for report in reports:
        typer.echo(report.json_line())
    if not all(report.ok for report in reports):
        raise typer.Exit(1)
