"""What is done to vLLM-Omni while its answers are recorded. A case's name says what."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import torch

from engine.api import Control, Tick
from engine.camera.commands import ACTIONS, TRACK, TRAJECTORY
from engine.omni.deployment import STAGE
from engine.omni.installed import InstalledOmni
from engine.omni.service import Opening
from engine.omni.world import OmniWorld
from tests.engine.omni.recorded_run import FRAMES, Run, Start, keys
from tests.engine.world.small_world import finish

KEYS: Final = ({"keys": ("w",)}, {"keys": ()}, {"keys": ("l",)})
TURN: Final = {
    "rotation": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "translation": (0.0, 0.0, 0.5),
}
EYE: Final = ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0))
LENS: Final = (500.0, 500.0, 416.0, 240.0)


def trajectory(poses: Any = (EYE,) * 9, intrinsics: Any = (LENS,) * 9) -> Control:
    return Control(TRACK, TRAJECTORY, {"poses": poses, "intrinsics": intrinsics})


def played(
    world: OmniWorld, index: int, motions: Any = KEYS, prompt: str = "a meadow", began: str = ""
) -> Any:
    """A chunk of one of our worlds from tick to commit; its frames' shape."""
    try:
        frames = finish(world.begin_chunk(ticked(world, index, motions, prompt, began)))
    except BaseException:
        world.rollback()
        raise
    world.commit()
    return list(frames.shape)


def ticked(
    world: OmniWorld, index: int, motions: Any = KEYS, prompt: str = "a meadow", began: str = ""
) -> Tick:
    """As the server makes it; `began` begins the request's id."""
    request = f"{began or world._world}-{index}"
    return Tick("s", world._world, 0, request, index, (index,), prompt, conditioning={TRACK: motions})


def two_worlds(run: Run) -> None:
    """Three blocks each, of keys, of poses, and of another prompt, in turn; then a close and a reset."""
    w, b = run.open("w"), run.open("b")
    turn = ({"delta": TURN},) * 3
    for world in (w, b):
        run.case(f"{world._world}: a block of keys", played, world, 0)
    for world in (w, b):
        run.case(f"{world._world}: a block of poses", played, world, 1, turn)
    for world in (w, b):
        run.case(f"{world._world}: another prompt", played, world, 2, prompt="a neon city at night")
    run.case("b: close", b.close)
    run.case("b: a tick after its close", run.direct, 3, keys(), "b")
    run.case("w: reset", w.reset)
    run.case("w: the first block again", played, w, 0, began="again")
    run.case("w: close", w.close)


def cameras(run: Run) -> None:
    """How keys and poses become rays: blocks whose answers are to be compared."""
    forward = {name: ({"delta": moved(z)},) * 3 for name, z in (("a full step", 0.05), ("a slow step", 0.01))}
    blocks: dict[str, tuple[Any, ...]] = {
        "keys ahead": (({"keys": ("w",)},) * 3,) * 2,
        "keys ahead from the second frame": (({"keys": ()}, *({"keys": ("w",)},) * 2),),
        "keys aslant": (({"keys": ("w",)}, {"keys": ("w", "d")}, {"keys": ("w",)}),) * 2,
        **{f"poses ahead by {name}": (motions,) * 2 for name, motions in forward.items()},
        "keys that look up": (({"keys": ("i",)},) * 3,) * 8,
        "poses after keys": (({"keys": ("w",)},) * 3, forward["a slow step"], ({"keys": ("w",)},) * 3),
    }
    for name, motions in blocks.items():
        world = run.open(name)
        for index, block in enumerate(motions):
            run.case(f"camera: {name}, block {index}", played, world, index, block)
        run.aside(world.close)


def moved(z: float) -> dict[str, Any]:
    return {**TURN, "translation": (0.0, 0.0, z)}


def wrong_chunks(run: Run) -> None:
    for name, index in (("the first block", 0), ("it again", 0), ("the next block after that", 1)):
        run.case(f"chunk index: {name}", run.direct, index, keys(), "i")
    run.case("chunk index: a begin at 2", run.direct, 2, keys(), "i2")
    run.case("chunk index: the first block once more", run.direct, 0, keys(), "i")
    run.case("chunk index: one left out", run.direct, 2, keys(), "i")
    run.case("chunk index: the one left out, after that", run.direct, 1, keys(), "i")
    world = run.open("o")
    run.case("chunk index: of a world of ours", played, world, 0)
    run.case("chunk index: of a world of ours, one left out", played, world, 2)
    run.case("chunk index: of that world, the next", played, world, 1)
    run.aside(world.close)


MALFORMED: Final[Mapping[str, Control]] = {
    "an unknown schema": keys(schema="lingbot.camera_actions.v9"),
    "an unknown track": keys(track="wind"),
    "an unknown key": keys((("x",), (), ())),
    "two frames": keys((("w",), ())),
    "no frames": keys(()),
    "an unknown mode": Control(TRACK, ACTIONS, {"mode": "script", "frames": FRAMES}),
    "a NaN pose": trajectory((*(EYE,) * 8, ((math.nan, *EYE[0][1:]), *EYE[1:]))),
    "three poses": trajectory((EYE,) * 3, (LENS,) * 3),
    "one intrinsics": trajectory((EYE,) * 9, (LENS,)),
    "no intrinsics": Control(TRACK, TRAJECTORY, {"poses": (EYE,) * 9}),
    "poses of three rows": trajectory((EYE[:3],) * 9),
    "a pose that isn't rigid": trajectory((*(EYE,) * 8, tuple(tuple(2 * x for x in row) for row in EYE))),
    "a negative focal length": trajectory((EYE,) * 9, ((-1.0, *LENS[1:]),) * 9),
}


def malformed(run: Run) -> None:
    """Each as the second block of a session, and whether that session then goes on."""
    for number, (name, control) in enumerate(MALFORMED.items()):
        session = f"m{number}"
        run.aside(run.direct, 0, keys(), session)
        run.case(f"malformed: {name}", run.direct, 1, control, session)
        run.case(f"malformed: {name}: the session afterwards", run.direct, 1, keys(), session)
        run.aside(run.run, run.omni.close_session(session))
    for name, changed in (
        ("two steps", {"steps": 2}),
        ("a negative flow shift", {"flow_shift": -1.0}),
        ("another picture size", {"image": torch.zeros(48, 64, 3, dtype=torch.uint8).numpy()}),
        ("no flow shift", {"flow_shift": None}),
        ("another seed", {"seed": 4}),
    ):
        run.case(f"opening: {name}", run.direct, 0, keys(), "m-" + name.replace(" ", "-"), **changed)


def frame_counts(run: Run) -> None:
    """Requests for other numbers of frames than our nine."""
    make = run.omni._sampling
    for count in (1, 5, 9, 21):
        run.omni._sampling = with_frames(make, count)
        run.case(f"frames: {count}", run.direct, 0, keys(), f"f{count}")
    run.omni._sampling = make


def with_frames(make: Callable[[Opening], Any], count: int) -> Callable[[Opening], Any]:
    """Sampling parameters that our code would not send."""
    return lambda opening: replace(make(opening), num_frames=count)


def cancels(run: Run) -> None:
    for wait_s in (0.0, 0.02, 0.04):
        name = f"c{int(wait_s * 1000)}"
        run.aside(run.direct, 0, keys(), name)
        run.case(f"cancel: {name}, after {wait_s} s", cancelled, run, name, wait_s)
        run.backstage.pause(1.0)  # whatever still runs there ends
        run.case(f"cancel: {name}, the same chunk", run.direct, 1, keys(), name)
        run.case(f"cancel: {name}, the next chunk", run.direct, 2, keys(), name)
        run.aside(run.run, run.omni.close_session(name))

    world = run.open("c")
    run.aside(played, world, 0)
    run.case("cancel: of a world of ours", rolled_back, world)
    run.case("cancel: of a world of ours, its session afterwards", run.direct, 1, keys(), "c")
    run.aside(world.close)


def rolled_back(world: OmniWorld) -> None:
    chunk = world.begin_chunk(ticked(world, 1))
    next(chunk.forwards(), None)
    world.rollback()


def cancelled(run: Run, name: str, wait_s: float) -> str:
    work = run.omni.run_tick(run.opening(), run.tick(1, session=name))
    run.notes.asked.clear()
    future = asyncio.run_coroutine_threadsafe(work, run.loop)
    assert run.notes.asked.wait(60)
    run.backstage.pause(wait_s)
    return f"cancelled: {future.cancel()}"


def at_once(run: Run) -> None:
    """Two ticks that wait for one worker, and a request id that was used before."""

    async def both() -> list[list[int]]:
        ticks = [run.tick(0, session=name) for name in ("p1", "p2")]
        done = await asyncio.gather(*(run.omni.run_tick(run.opening(), tick) for tick in ticks))
        return [list(chunk.latents.shape) for chunk in done]

    run.case("at once: two sessions", run.run, both())
    again = replace(
        run.tick(1, session="p2"), echo=replace(run.tick(1, session="p2").echo, request_id="p1-0")
    )
    run.case("at once: a request id used before", run.shape, again)
    for name in ("p1", "p2"):
        run.aside(run.run, run.omni.close_session(name))


def lifecycle(run: Run) -> None:
    """Resets and closes as our code asks for them."""
    omni = run.omni
    run.aside(run.direct, 0, keys(), "l")
    run.case("lifecycle: reset it", run.run, omni.reset_session("l"))
    run.case("lifecycle: reset it again", run.run, omni.reset_session("l"))
    run.case("lifecycle: its first block again", run.direct, 0, keys(), "l")
    run.case("lifecycle: close it", run.run, omni.close_session("l"))
    run.case("lifecycle: close it again", run.run, omni.close_session("l"))
    run.case("lifecycle: reset a closed one", run.run, omni.reset_session("l"))
    run.case("lifecycle: close an unknown one", run.run, omni.close_session("nobody"))
    run.case("lifecycle: reset an unknown one", run.run, omni.reset_session("nobody"))
    run.case("lifecycle: a call that it doesn't know", run.rpc, "no_such_call", [STAGE])
    run.case("lifecycle: a stage that isn't there", run.rpc, "close_ar_diffusion_session", [7])
    run.case("lifecycle: an empty name", run.run, omni.reset_session(""))
    impatient = InstalledOmni(run.client, run.backstage.published, 0.5)
    run.aside(run.direct, 0, keys(), "t")
    run.backstage.freeze()
    run.case("timeout: reset while its worker stands still", run.run, impatient.reset_session("t"))
    run.case("timeout: close while its worker stands still", run.run, impatient.close_session("t"))
    run.backstage.thaw()
    run.case("timeout: the next block afterwards", run.direct, 1, keys(), "t")
    run.aside(run.run, omni.close_session("t"))


def beyond_the_limit(run: Run) -> None:
    """Two sessions fit."""
    for name in ("e1", "e2", "e3"):
        run.case(f"limit: {name} begins", run.direct, 0, keys(), name)
    for place, name in (("newest", "e3"), ("second newest", "e2"), ("oldest", "e1")):
        run.case(f"limit: {name}, the {place}, goes on", run.direct, 1, keys(), name)
    for name in ("e3", "e2"):
        run.case(f"limit: {name} after that refusal", run.direct, 2, keys(), name)
    for name in ("e1", "e2", "e3"):
        run.aside(run.run, run.omni.close_session(name))


def long_world(run: Run) -> None:
    """Further than the window of 18 latent frames reaches."""
    for index in range(8):
        run.case(f"long: block {index}", run.direct, index, keys(), "z")
    run.aside(run.run, run.omni.close_session("z"))


def death(run: Run) -> None:
    world = run.open("k")
    run.aside(played, world, 0)
    run.backstage.kill()
    run.case("death: the next block of a world of ours", played, world, 1)
    run.case("death: its next block", run.direct, 1, keys(), "k")
    run.case("death: close", run.run, run.omni.close_session("k"))
    run.case("death: check", run.run, run.omni.check())


def in_bfloat16(run: Run) -> None:
    run.case("bfloat16: a block", run.direct, 0, keys())


def without_sessions(run: Run) -> None:
    run.case("another engine: a block", run.direct, 0, keys())
    run.case("another engine: reset", run.run, run.omni.reset_session("d"))
    run.case("another engine: close", run.run, run.omni.close_session("d"))


def plain_stage(deployed: dict[str, Any]) -> None:
    """A stage that isn't AR-diffusion."""
    stage = deployed["stages"][STAGE]
    del stage["engine_backend"], stage["model_config"]["ar_diffusion_kv_config"]


def two_replicas(deployed: dict[str, Any]) -> None:
    deployed["stages"][STAGE] |= {"num_replicas": 2, "devices": "0,1"}


CASES: Final = (
    two_worlds,
    cameras,
    wrong_chunks,
    malformed,
    frame_counts,
    cancels,
    at_once,
    lifecycle,
    beyond_the_limit,
    long_world,
    death,  # kills the worker
)

STARTS: Final[Mapping[str, Start]] = {
    "in float32": Start(CASES, dtype="float32"),
    "as we deploy it": Start((in_bfloat16,)),
    "without sessions": Start((without_sessions,), plain_stage, "float32"),
    "twofold": Start((), two_replicas, "float32"),
}
