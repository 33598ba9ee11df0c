"""A world that is revived from a file, or forked, goes on bit for bit; one that does not fit is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import safetensors.torch
import torch
from small_world import CONFIG, FORWARD, STILL, TURN, picture, play, small_model, spec_of

from engine.api import SnapshotRefused
from engine.sampler.schedule import shifted
from engine.world.caches import Caches, make_caches
from engine.world.model import Model
from engine.world.snapshot import fork, identity, restore, take
from engine.world.snapshot_file import read_snapshot, write_snapshot
from engine.world.spec import WorldSpec
from engine.world.world import World, open_world

BLOCKS = (FORWARD, TURN, STILL, FORWARD, TURN, TURN, FORWARD)  # the view is full after three


@pytest.fixture(scope="module")
def model() -> Model:
    return small_model()


@pytest.fixture
def caches() -> Caches:
    return make_caches()


def world_of(model: Model, caches: Caches, name: str = "w", seed: int = 3) -> World:
    return open_world(model, replace(spec_of(seed=seed), world=name), caches)


def prompt_of(index: int) -> str:
    return "a meadow" if index < 2 else "a desert at night"


def go_on(world: World, first: int) -> list[bytes]:
    return [
        frame
        for index, motions in list(enumerate(BLOCKS))[first:]
        for frame in play(world, motions, prompt=prompt_of(index))
    ]


@pytest.fixture(scope="module")
def undisturbed(model: Model) -> list[bytes]:
    world = world_of(model, make_caches())
    return go_on(world, 0)


@pytest.mark.parametrize("chunks", range(len(BLOCKS)))
def test_a_revived_world_goes_on_bit_for_bit(
    model: Model, caches: Caches, undisturbed: list[bytes], chunks: int
) -> None:
    world = world_of(model, caches)
    for index in range(chunks):
        play(world, BLOCKS[index], prompt=prompt_of(index))
    data = take(world).pack()
    world.close()
    revived = world_of(model, caches, "another life")
    restore(revived, data)
    assert revived.chunks == chunks
    assert go_on(revived, chunks) == undisturbed[chunks:]


def test_a_revived_world_can_be_reset(model: Model, caches: Caches, undisturbed: list[bytes]) -> None:
    world = world_of(model, caches)
    play(world, *BLOCKS[:2])
    revived = world_of(model, caches, "another life")
    restore(revived, take(world).pack())
    revived.reset()
    assert go_on(revived, 0) == undisturbed


def test_a_snapshot_of_a_revived_world_is_the_same_file(model: Model, caches: Caches) -> None:
    world = world_of(model, caches)
    play(world, *BLOCKS[:4])
    data = take(world).pack()
    revived = world_of(model, caches, "another life")
    restore(revived, data)
    assert take(revived).pack() == data


def test_a_chunk_in_flight_is_not_part_of_a_snapshot(
    model: Model, caches: Caches, undisturbed: list[bytes]
) -> None:
    world = world_of(model, caches)
    play(world, BLOCKS[0])
    chunk = world.begin_chunk("a desert", FORWARD)
    next(chunk.forwards())
    taken = take(world)
    world.rollback()
    go_on(world, 1)  # what it does later changes nothing either
    revived = world_of(model, caches, "another life")
    restore(revived, taken.pack())
    assert go_on(revived, 1) == undisturbed[1:]


def test_any_reader_of_safetensors_opens_the_file(model: Model, caches: Caches) -> None:
    world = world_of(model, caches)
    play(world, *BLOCKS[:2])
    tensors = safetensors.torch.load(take(world).pack())
    view = world.caches.view.state()
    assert torch.equal(tensors["keys.1"], view.keys[1]) and torch.equal(tensors["values.0"], view.values[0])
    assert torch.equal(tensors["generator"], world.state.generator)


def test_memory_order_survives(model: Model, caches: Caches) -> None:
    world = world_of(model, caches)
    play(world, BLOCKS[0])
    decoder = tuple(
        tensor.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        for tensor in world.state.decoder
    )
    world._state = replace(world.state, decoder=decoder)
    revived = world_of(model, caches, "another life")
    restore(revived, take(world).pack())
    assert [tensor.stride() for tensor in revived.state.decoder] == [tensor.stride() for tensor in decoder]
    assert all(torch.equal(a, b) for a, b in zip(revived.state.decoder, decoder, strict=True))


# Refusals


@pytest.fixture(scope="module")
def data(model: Model) -> bytes:
    world = world_of(model, make_caches())
    play(world, *BLOCKS[:2])
    return take(world).pack()


@pytest.mark.parametrize("place", [0, 7, 8, 40, 300, -1, -4000])
def test_a_flipped_bit_is_refused(model: Model, caches: Caches, data: bytes, place: int) -> None:
    damaged = bytearray(data)
    damaged[place] ^= 4
    refused(world_of(model, caches), bytes(damaged), "the snapshot")


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.1, 0.5, 0.9999])
def test_a_truncated_snapshot_is_refused(model: Model, caches: Caches, data: bytes, share: float) -> None:
    refused(world_of(model, caches), data[: int(len(data) * share)], "the snapshot")


def test_a_longer_snapshot_is_refused(model: Model, caches: Caches, data: bytes) -> None:
    refused(world_of(model, caches), data + b"\0", "damaged")


def test_another_format_is_refused(model: Model, caches: Caches, data: bytes) -> None:
    facts, parts = read_snapshot(data)
    newer = write_snapshot({**facts, "format": 2}, parts)
    refused(world_of(model, caches), newer, "format is 2, expected 1")


def test_another_model_is_refused(caches: Caches, data: bytes) -> None:
    retrained = small_model()
    retrained.revision = "retrained"
    refused(world_of(retrained, caches), data, "model revision is 'small', expected 'retrained'")


def test_another_geometry_is_refused(caches: Caches, data: bytes) -> None:
    wider = small_model(replace(CONFIG, sliding_window_num_frames=12))
    refused(world_of(wider, caches), data, "geometry.window_frames is 6, expected 9")


def test_another_schedule_is_refused(caches: Caches, data: bytes) -> None:
    refused(world_of(small_model(schedule=shifted((1000.0, 500.0), 5.0)), caches), data, "schedule")


def test_another_seed_or_image_is_refused(model: Model, caches: Caches, data: bytes) -> None:
    world = open_world(model, WorldSpec("w", picture(3), "a meadow", 4), caches)
    refused(world, data, "seed is 3, expected 4")
    world = open_world(model, WorldSpec("x", picture(9), "a meadow", 3), caches)
    refused(world, data, "image")


def test_a_refused_snapshot_leaves_the_world_as_it_was(
    model: Model, caches: Caches, data: bytes, undisturbed: list[bytes]
) -> None:
    world = world_of(model, caches)
    play(world, BLOCKS[0])
    refused(world, data[:-1], "damaged")
    assert go_on(world, 1) == undisturbed[1:]


def refused(world: World, data: bytes, words: str) -> None:
    with pytest.raises(SnapshotRefused, match=words):
        restore(world, data)


# Forks


@pytest.mark.parametrize("chunks", [0, 1, 3, 5])
def test_a_fork_goes_its_own_way_and_the_source_stays(
    model: Model, caches: Caches, undisturbed: list[bytes], chunks: int
) -> None:
    source = world_of(model, caches)
    for index in range(chunks):
        play(source, BLOCKS[index], prompt=prompt_of(index))
    branch, twin = world_of(model, caches, "branch"), world_of(model, caches, "twin")
    fork(source, branch)
    fork(source, twin)
    [other] = play(branch, STILL, prompt="a desert")
    assert other != undisturbed[chunks]
    play(branch, TURN, FORWARD, prompt="a desert")
    assert go_on(twin, chunks) == undisturbed[chunks:]
    branch.close()
    assert go_on(source, chunks) == undisturbed[chunks:]


def test_forks_and_their_source_share_no_cache_memory(model: Model, caches: Caches) -> None:
    source, branch = world_of(model, caches), world_of(model, caches, "branch")
    play(source, *BLOCKS[:2])
    fork(source, branch)
    source.close()
    branch.close()
    assert caches.memory.live_bytes == 0 and caches.is_balanced()


def test_a_fork_with_another_opening_is_refused(model: Model, caches: Caches) -> None:
    source = world_of(model, caches)
    with pytest.raises(SnapshotRefused, match="seed is 3, expected 5"):
        fork(source, world_of(model, caches, "branch", seed=5))


def test_what_has_to_agree_is_json(model: Model, caches: Caches) -> None:
    facts = identity(world_of(model, caches))
    assert json.loads(json.dumps(facts))["origin"] == np.eye(4).tolist()
