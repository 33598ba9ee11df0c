"""`worldline generate`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import track

from app.bootstrap import GenerateRefused, MadeChunk, Making, generate_video
from app.commands.settings import option
from app.commands.whole_file import NotWritable, require_writable, whole_file
from app.packaging.packager import Packager

SAFETENSORS_KEY: Final = "latents"


class Scaling(StrEnum):
    """What the translations of a recorded trajectory mean."""

    MAX = "max"
    UNIT = "unit"


def generate(
    output: Annotated[Path, typer.Argument(help="The video, a fragmented MP4 with H.264.")],
    image: Annotated[Path | None, typer.Option(help="The first frame: PNG, JPEG or WebP.")] = None,
    scene: Annotated[str | None, typer.Option(help="Or one of the model's own first frames.")] = None,
    prompt: Annotated[str | None, typer.Option(help="What the world is; by default the scene's.")] = None,
    actions: Annotated[
        Path | None,
        typer.Option(
            help='JSON lines, one per chunk: {"event_id": 1, "prompt": "...", "frames": [["w"], ["w"], []]}.'
        ),
    ] = None,
    action_dir: Annotated[
        str | None,
        typer.Option(help="A recorded trajectory: a directory with poses.npy and intrinsics.npy."),
    ] = None,
    trusted_root: Annotated[
        Path | None,
        typer.Option(help="What --action-dir lies under.", envvar="WORLDLINE_TRUSTED_ROOT"),
    ] = None,
    scaling: Annotated[
        Scaling, typer.Option(help="The trajectory's largest step counts as one step, or as it is.")
    ] = Scaling.MAX,
    num_frames: Annotated[int | None, typer.Option(help="9 + 12 k; by default 81, or the actions'.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Same seed, same video.")] = 0,
    width: Annotated[int | None, typer.Option(min=1, help="Pixels; by default the model's.")] = None,
    height: Annotated[int | None, typer.Option(min=1, help="Pixels; by default the model's.")] = None,
    fps: Annotated[int | None, typer.Option(min=1, max=120, help="By default the model's.")] = None,
    flow_shift: Annotated[float | None, typer.Option(help="Shift of the noise schedule.")] = None,
    model: Annotated[
        str, typer.Option(help="`tiny`, a checkpoint folder, or OWNER/NAME@COMMIT.", envvar="WORLDLINE_MODEL")
    ] = "tiny",
    threads: Annotated[int | None, typer.Option(min=1, help="Compute threads.")] = None,
    compile: Annotated[bool, option("compile")] = False,
    tf32: Annotated[bool, option("tf32")] = False,
    save_latents: Annotated[
        Path | None, typer.Option(help="Write the clean latents, safetensors `latents` [1, C, T, h, w].")
    ] = None,
    metadata: Annotated[
        Path | None, typer.Option(help="Write what was asked for and every chunk's digest, as JSON.")
    ] = None,
) -> None:
    """Generate a video without a server: the same frames as a session with the same inputs.

    Example: worldline generate walk.mp4 --scene meadow-1 --actions walk.jsonl --seed 7
    """
    options = {
        "image": image,
        "scene": scene,
        "prompt": prompt,
        "actions": actions,
        "action_dir": action_dir,
        "trusted_root": trusted_root,
        "scaling": scaling.value,
        "num_frames": num_frames,
        "seed": seed,
        "width": width,
        "height": height,
        "fps": fps,
        "flow_shift": flow_shift,
        "model": model,
        "threads": threads,
        "compiled": compile,
        "tf32": tf32,
    }
    try:
        require_writable((output, save_latents, metadata), (image, actions))
        made = generate_video(options)
        latents, facts = _write(made, output, keep=save_latents is not None)
        if save_latents is not None:
            _save_latents(latents, save_latents)
        if metadata is not None:
            _save_facts({**made.facts, "chunks": facts}, metadata)
    except (GenerateRefused, NotWritable) as refused:
        typer.echo(f"worldline generate: {refused}", err=True)
        raise typer.Exit(1) from None


def _write(made: Making, output: Path, keep: bool) -> tuple[list[Any], list[dict[str, object]]]:
    """The video, chunk by chunk; returns the latents, where they are to be kept, and each chunk's facts."""
    packager, latents, facts = Packager("m4s"), [], []
    with whole_file(output) as part, part.open("wb") as file:
        for chunk in _with_bar(made):
            file.write(packager.package(chunk.media).payload)
            facts.append(dict(chunk.facts))
            if keep:
                latents.append(chunk.latents)
    return latents, facts


def _with_bar(made: Making) -> Iterator[MadeChunk]:
    console = Console(stderr=True)
    yield from track(
        made.chunks, "chunks", total=made.count, console=console, disable=not console.is_terminal
    )


def _save_latents(latents: list[Any], path: Path) -> None:
    import numpy as np
    from safetensors.numpy import save

    with whole_file(path) as part:
        part.write_bytes(save({SAFETENSORS_KEY: np.concatenate(latents, axis=2)}))


def _save_facts(facts: Mapping[str, object], path: Path) -> None:
    with whole_file(path) as part:
        part.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
