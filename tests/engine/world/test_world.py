"""The bytes of a world follow from its inputs alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from failing_model import FailingCodec, FailingTransformer
from small_world import (
    CONFIG,
    FORWARD,
    HEIGHT,
    TURN,
    WALK,
    WIDTH,
    finish,
    picture,
    play,
    small_model,
    spec_of,
)

from engine.camera.algebra import compose
from engine.camera.integrate import Camera, press
from engine.sampler.schedule import Schedule, ScheduleRefused
from engine.world.caches import Caches
from engine.world.model import Model
from engine.world.world import World, open_world


def test_the_first_chunk_has_nine_frames_and_each_later_one_twelve(fresh: Callable[..., World]) -> None:
    world = fresh()
    sizes = []
    for motions in WALK:
        frames = finish(world.begin_chunk("a meadow", motions))
        world.commit()
        assert frames.shape[1:] == (HEIGHT, WIDTH, 3)
        assert frames.dtype == np.uint8
        sizes.append(len(frames))
    assert sizes == [9, 12, 12, 12, 12]
    assert world.chunks == 5


def test_the_same_inputs_give_the_same_bytes(fresh: Callable[..., World]) -> None:
    assert play(fresh(), *WALK) == play(fresh(), *WALK)


def test_seed_image_prompt_and_camera_all_matter(fresh: Callable[..., World]) -> None:
    base = play(fresh(), FORWARD, FORWARD)
    others = [
        play(fresh(replace(spec_of("seed"), seed=4)), FORWARD, FORWARD),
        play(fresh(replace(spec_of("image"), image=picture(9))), FORWARD, FORWARD),
        play(fresh(), FORWARD, FORWARD, prompt="a desert"),
        play(fresh(), TURN, FORWARD),
    ]
    assert all(other[0] != base[0] for other in others)


@pytest.mark.parametrize("order", ["abcabcabcabcabc", "aaaaabbbbbccccc", "abbcccaabbcaabc"[:15]])
def test_interleaved_worlds_give_the_bytes_of_worlds_alone(fresh: Callable[..., World], order: str) -> None:
    specs = {name: spec_of(f"{name}{order}", seed) for name, seed in (("a", 1), ("b", 2), ("c", 3))}
    walks = {"a": WALK, "b": WALK[::-1], "c": (TURN,) * 5}
    alone = {}
    for name, spec in specs.items():
        alone[name] = play(fresh(replace(spec, world=f"alone {name}")), *walks[name])
    worlds = {name: fresh(spec) for name, spec in specs.items()}
    together: dict[str, list[bytes]] = {name: [] for name in specs}
    for name in order:
        done = len(together[name])
        if done < 5:
            together[name] += play(worlds[name], walks[name][done])
    assert all(together[name] == alone[name][: len(together[name])] for name in specs)


def test_two_chunks_in_flight_at_once_do_not_disturb_one_another(fresh: Callable[..., World]) -> None:
    a, b = fresh(), fresh()
    chunks = a.begin_chunk("a meadow", FORWARD), b.begin_chunk("a meadow", FORWARD)
    for _ in zip(*(chunk.forwards() for chunk in chunks), strict=True):
        pass
    first, second = (chunk.decode().tobytes() for chunk in chunks)
    assert first == second == play(fresh(), FORWARD)[0]


def test_text_is_projected_once_per_prompt(
    fresh: Callable[..., World], failing: tuple[Model, FailingTransformer, FailingCodec]
) -> None:
    model, transformer, _ = failing
    world = fresh(model=model)
    transformer.left = 0
    for prompt in ("a meadow", "a meadow", "night", "night", "night"):
        play(world, FORWARD, prompt=prompt)
    assert -transformer.left == 5 * 5 + 2  # four probes and a commit each, and two projections


def test_a_new_prompt_keeps_the_history_of_the_world(fresh: Callable[..., World]) -> None:
    world, other = fresh(), fresh()
    play(world, FORWARD)
    play(other, TURN)
    assert play(world, FORWARD, prompt="night") != play(other, FORWARD, prompt="night")


def test_a_reset_world_begins_anew(fresh: Callable[..., World]) -> None:
    world = fresh()
    first = play(world, *WALK)
    world.begin_chunk("night", TURN)
    world.reset()
    assert world.chunks == 0
    assert play(world, *WALK) == first


@pytest.mark.parametrize("committed", [0, 1, 2, 4])
def test_a_restored_snapshot_goes_on_bit_for_bit(fresh: Callable[..., World], committed: int) -> None:
    world = fresh()
    before = play(world, *WALK[:committed])
    snapshot = world.snapshot()
    after = play(world, *WALK[committed:])
    revived = fresh()
    play(revived, TURN)
    revived.restore(snapshot)
    assert play(revived, *WALK[committed:]) == after
    assert before + after == play(fresh(), *WALK)


def test_without_a_session_input_a_scenes_origin_changes_nothing_but_rounding(
    fresh: Callable[..., World],
) -> None:
    origin = compose(press(Camera(), {"l"}).pose, press(Camera(), {"w"}).pose)
    here, there = play(fresh(), FORWARD), play(fresh(replace(spec_of("there"), origin=origin)), FORWARD)
    a, b = (np.frombuffer(frames[0], np.uint8).astype(int) for frames in (here, there))
    assert abs(a - b).max() <= 1


def test_a_shift_of_the_schedule_is_the_worlds_own(fresh: Callable[..., World]) -> None:
    usual = play(fresh(), FORWARD)
    assert play(fresh(replace(spec_of("shifted"), flow_shift=3.0)), FORWARD) != usual
    assert play(fresh(), FORWARD) == usual


def test_a_fixed_schedule_refuses_a_shift_and_leaves_nothing(caches: Caches) -> None:
    model = small_model(schedule=Schedule.from_json({"sigmas": [1.0, 0.6], "prediction_type": "sample"}))
    with pytest.raises(ScheduleRefused):
        open_world(model, replace(spec_of(), flow_shift=3.0), caches)
    assert caches.memory.live_bytes == 0


def test_two_probes_that_predict_the_sample_make_a_world_too(fresh: Callable[..., World]) -> None:
    model = small_model(schedule=Schedule.from_json({"sigmas": [1.0, 0.6], "prediction_type": "sample"}))
    world = fresh(model=model)
    chunk = world.begin_chunk("a meadow", FORWARD)
    assert sum(1 for _ in chunk.forwards()) == 2
    world.rollback()
    assert play(world, *WALK) == play(fresh(model=model), *WALK)


def test_a_world_may_see_its_last_latent_instead_of_the_first_frame(fresh: Callable[..., World]) -> None:
    model = small_model(replace(CONFIG, image_condition="last_latent"))
    frames = play(fresh(model=model), *WALK)
    assert frames != play(fresh(), *WALK)
    world = fresh(model=model)
    begun = play(world, FORWARD)
    world.begin_chunk("night", TURN)
    world.rollback()
    assert begun + play(world, *WALK[1:]) == frames
