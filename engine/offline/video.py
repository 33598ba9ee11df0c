"""One video from options: its files are checked before the model loads, the rest before a chunk is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.api import EngineError, ModelCard, OpenWorld
from engine.camera.rays import Scaling
from engine.camera.trajectory import TrajectoryRefused, load_trajectory
from engine.checkpoint.index import CheckpointRefused
from engine.native.host import NativeHost, make_host
from engine.offline.generate import GeneratedChunk, generate
from engine.offline.script import (
    FRAMES_PER_BLOCK,
    MAX_PROMPT,
    Event,
    ScriptRefused,
    chunks_of,
    frames_before,
    read_at_most,
    read_events,
    trajectory_events,
)
from kvcache.errors import CapacityError

DEFAULT_FRAMES: Final = 81  # about five seconds at 16 fps
MAX_IMAGE_BYTES: Final = 64 * 2**20


class VideoRefused(Exception):
    """A video can't be made: names the option or the file, what came and what is allowed."""


@dataclass(frozen=True, slots=True)
class VideoOptions:
    """What to generate; sizes in pixels, by default the model's own.

    One of `image` and `scene`, and at most one of `actions` and `action_dir`, which is a directory under
    `trusted_root`. Without `num_frames` the video is as long as its actions, or 81 frames.
    """

    model: str = "tiny"
    threads: int | None = None
    image: Path | None = None
    scene: str | None = None
    prompt: str | None = None
    seed: int = 0
    num_frames: int | None = None
    actions: Path | None = None
    action_dir: str | None = None
    trusted_root: Path | None = None
    scaling: Scaling = "max"
    width: int | None = None
    height: int | None = None
    fps: int | None = None
    flow_shift: float | None = None
    compiled: bool = False
    tf32: bool = False


@dataclass(frozen=True, slots=True)
class Video:
    """A video that is about to be generated: `facts` are JSON, `chunks` come as they are made."""

    facts: Mapping[str, object]
    count: int
    frames: int
    chunks: Iterator[GeneratedChunk]


def open_video(options: VideoOptions) -> Video:
    """Read the script, load the model, and stand ready. Raises `VideoRefused`, also while chunks are made."""
    try:
        script = _script(options)
        image = None if options.image is None else _image(options.image)
        host = make_host(
            options.model, options.threads, max_worlds=1, compiled=options.compiled, tf32=options.tf32
        )
        card = host.load()
        request = _request(options, card, image)
    except (ScriptRefused, TrajectoryRefused, CheckpointRefused, CapacityError) as refused:
        raise VideoRefused(str(refused)) from None
    frames = frames_before(len(script))
    return Video(
        _facts(options, card, request, host, frames), len(script), frames, _play(host, request, script)
    )


def _play(host: NativeHost, request: OpenWorld, script: Sequence[Event]) -> Iterator[GeneratedChunk]:
    try:
        yield from generate(host, request, script)
    except EngineError as refused:
        raise VideoRefused(str(refused)) from refused.__cause__


def _script(options: VideoOptions) -> tuple[Event, ...]:
    """One event per chunk; chunks beyond the last event change nothing."""
    if options.actions is not None and options.action_dir is not None:
        raise VideoRefused("actions, action-dir: one of them at most")
    if options.actions is not None:
        events = read_events(options.actions)
        chunks = len(events) if options.num_frames is None else chunks_of(options.num_frames)
        if chunks < len(events):
            expected = f"at least {frames_before(len(events))} for its {len(events)} events, or none"
            raise VideoRefused(f"num-frames: got {options.num_frames}, expected {expected}")
        return events + _idle(events[-1].event_id + 1, chunks - len(events))
    chunks = chunks_of(DEFAULT_FRAMES if options.num_frames is None else options.num_frames)
    if options.action_dir is None:
        return _idle(0, chunks)
    if options.trusted_root is None:
        raise VideoRefused("action-dir: needs a trusted-root, the directory that it lies under")
    trajectory = load_trajectory(options.trusted_root, options.action_dir)
    return trajectory_events(trajectory, chunks, options.scaling)


def _idle(first_id: int, chunks: int) -> tuple[Event, ...]:
    return tuple(Event(first_id + number) for number in range(chunks))


def _image(path: Path) -> bytes:
    try:
        data = read_at_most(path, MAX_IMAGE_BYTES)
    except OSError as error:
        raise VideoRefused(f"image: {path}: {error.strerror}") from None
    if data is None:
        raise VideoRefused(f"image: {path} has more than {MAX_IMAGE_BYTES} bytes")
    return data


def _request(options: VideoOptions, card: ModelCard, image: bytes | None) -> OpenWorld:
    if card.frames_per_block != FRAMES_PER_BLOCK:
        came = f"{card.name} has {card.frames_per_block} latent frames per block"
        raise VideoRefused(f"model: {came}, expected {FRAMES_PER_BLOCK}")
    prompts = {scene.name: scene.prompt for scene in card.scenes}
    if options.scene is not None and options.scene not in prompts:
        raise VideoRefused(f"scene: got {options.scene!r}, allowed are {', '.join(prompts) or 'none'}")
    prompt = prompts.get(options.scene or "") if options.prompt is None else options.prompt
    if not prompt:
        raise VideoRefused("prompt: is missing, and there is no scene to take it from")
    if len(prompt) > MAX_PROMPT:
        raise VideoRefused(f"prompt: has {len(prompt)} characters, at most {MAX_PROMPT}")
    return OpenWorld(
        world="offline",
        prompt=prompt,
        width=options.width or card.width,
        height=options.height or card.height,
        fps=options.fps or card.fps,
        seed=options.seed,
        image=image,
        scene=options.scene,
        flow_shift=options.flow_shift,
    )


def _facts(
    options: VideoOptions, card: ModelCard, request: OpenWorld, host: NativeHost, frames: int
) -> Mapping[str, object]:
    camera = {
        "actions": None if options.actions is None else str(options.actions),
        "action_dir": options.action_dir,
        "scaling": options.scaling if options.action_dir is not None else None,
    }
    return {
        "model": card.name,
        "revision": host.revision,
        "prompt": request.prompt,
        "scene": request.scene,
        "seed": request.seed,
        "width": request.width,
        "height": request.height,
        "fps": request.fps,
        "flow_shift": request.flow_shift,
        "frames": frames,
        **camera,
    }
