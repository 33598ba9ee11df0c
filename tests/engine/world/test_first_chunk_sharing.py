"""A hit gives the very frames and the very future; anything that differs is a miss."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
import torch
from small_world import FORWARD, STILL, TURN, picture, small_model, spec_of

from engine.sampler.schedule import shifted
from engine.world.caches import Caches, make_caches
from engine.world.model import Model
from engine.world.sharing import FirstChunks, SharingWorld, StoredChunk, open_first_chunks
from engine.world.spec import WorldSpec
from engine.world.world import World, open_world
from kvcache.memory import Allocation, Memory

ROOM = 64 * 2**20


@pytest.fixture(scope="module")
def model() -> Model:
    return small_model()


@dataclass
class Bench:
    model: Model
    caches: Caches
    store: FirstChunks
    opened: list[World | SharingWorld] = field(default_factory=list)

    def world(self, name: str, spec: WorldSpec | None = None, model: Model | None = None) -> SharingWorld:
        spec = replace(spec or spec_of(), world=name)
        world = SharingWorld(
            open_world(model or self.model, spec, self.caches), self.store, self.caches.memory, 16, "h264"
        )
        self.opened.append(world)
        return world

    def alone(self, spec: WorldSpec | None = None) -> World:
        world = open_world(self.model, replace(spec or spec_of(), world="alone"), self.caches)
        self.opened.append(world)
        return world


@pytest.fixture
def bench(model: Model) -> Iterator[Bench]:
    caches = make_caches()
    bench = Bench(model, caches, open_first_chunks(caches.ledger, caches.memory, ROOM))
    yield bench
    for world in bench.opened:
        world.close()
    assert caches.ledger.live_bytes == caches.memory.live_bytes == bench.store.live_bytes
    bench.store.close()
    assert caches.memory.live_bytes == 0
    assert caches.is_balanced()


Motions = tuple[dict[str, tuple[str, ...]], ...]


def chunk(world: World | SharingWorld, motions: Motions = FORWARD, prompt: str = "a meadow") -> bytes:
    running = world.begin_chunk(prompt, motions)
    for _ in running.forwards():
        pass
    frames = running.decode()
    running.write()
    world.commit()
    return frames.tobytes()


def walk(world: World | SharingWorld) -> list[bytes]:
    return [chunk(world, motions) for motions in (FORWARD, TURN, STILL, FORWARD, TURN)]


def test_a_hit_and_all_that_follows_are_bit_for_bit_what_would_have_been_computed(bench: Bench) -> None:
    expected = walk(bench.alone())
    assert walk(bench.world("first")) == expected
    assert (bench.store.hits, bench.store.misses) == (0, 1)
    assert walk(bench.world("second")) == expected
    assert (bench.store.hits, bench.store.misses) == (1, 1)
    assert walk(bench.world("third")) == expected


def test_a_hit_runs_no_forward(bench: Bench) -> None:
    chunk(bench.world("first"))
    running = bench.world("second").begin_chunk("a meadow", FORWARD)
    assert isinstance(running, StoredChunk)
    assert list(running.forwards()) == []


def test_a_hit_of_a_world_that_is_gone_is_still_right(bench: Bench) -> None:
    expected = walk(bench.alone())
    first = bench.world("first")
    chunk(first)
    first.close()
    gc.collect()
    assert walk(bench.world("second")) == expected


def test_what_one_world_does_with_its_copy_the_others_do_not_see(bench: Bench) -> None:
    expected = walk(bench.alone())
    worlds = [bench.world(name) for name in ("first", "second")]
    for world in worlds:
        chunk(world)
    for motions in (TURN, STILL):
        for world in worlds:
            chunk(world, motions)
    with torch.inference_mode():
        for world in worlds:  # overwrite all that the world holds
            for tensor in (*world.world.caches.view._held.tensors, *world.world.state.decoder):
                tensor.fill_(7.0)
            world.world.state.generator.fill_(0)
    assert walk(bench.world("third")) == expected


def test_a_reset_world_hits_its_own_first_chunk(bench: Bench) -> None:
    world = bench.world("first")
    expected = walk(world)
    world.reset()
    assert walk(world) == expected
    assert bench.store.hits == 1


DIFFERENT = {
    "image": replace(spec_of(), image=picture(99)),
    "seed": replace(spec_of(), seed=4),
    "size": replace(spec_of(), image=picture(3, width=64)),
    "origin": replace(
        spec_of(),
        origin=((1.0, 0.0, 0.0, 2.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0)),
    ),
    "flow shift": replace(spec_of(), flow_shift=3.0),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_world_that_differs_never_hits(bench: Bench, name: str) -> None:
    chunk(bench.world("first"))
    chunk(bench.world("second", DIFFERENT[name]))
    assert bench.store.hits == 0


def test_another_prompt_or_camera_never_hits(bench: Bench) -> None:
    chunk(bench.world("first"))
    chunk(bench.world("second"), prompt="a desert")
    chunk(bench.world("third"), TURN)
    assert bench.store.hits == 0


def test_one_pixel_makes_a_difference(bench: Bench) -> None:
    chunk(bench.world("first"))
    image = spec_of().image.copy()
    image[-1, -1, -1] ^= 1
    chunk(bench.world("second", replace(spec_of(), image=image)))
    assert bench.store.hits == 0


def test_another_model_or_schedule_never_hits(bench: Bench) -> None:
    chunk(bench.world("first"))
    tuned = replace(small_model(), revision="tuned")
    chunk(bench.world("second", model=tuned))
    quick = small_model(schedule=shifted((1000.0, 500.0), 5.0))
    chunk(bench.world("third", model=quick))
    assert bench.store.hits == 0


def test_what_is_encoded_otherwise_never_hits(bench: Bench) -> None:
    chunk(bench.world("first"))
    for fps, media in ((12, "h264"), (16, "jpeg")):
        world = bench.world(media)
        world._fps, world._media = fps, media
        chunk(world)
        world.close()
    assert bench.store.hits == 0


@pytest.mark.parametrize("after", ["begin", "forwards", "decode", "write"])
@pytest.mark.parametrize("hit", [False, True])
def test_a_rollback_leaves_no_trace_and_no_entry(bench: Bench, after: str, hit: bool) -> None:
    expected = walk(bench.alone())
    if hit:
        chunk(bench.world("first"))
    entries, world = len(bench.store), bench.world("second")
    running = world.begin_chunk("a meadow", FORWARD)
    if after != "begin":
        list(running.forwards())
    if after in ("decode", "write"):
        running.decode()
    if after == "write":
        running.write()
    world.rollback()
    assert len(bench.store) == entries
    state = bench.caches.ledger.live.owners[bench.store.owner]
    assert not state.building
    assert not any(entry.leases for entry in state.entries.values())
    assert walk(world) == expected


def test_of_two_builds_at_once_the_one_that_began_last_is_kept(bench: Bench) -> None:
    expected = walk(bench.alone())
    one, two = bench.world("one"), bench.world("two")
    first = one.begin_chunk("a meadow", FORWARD)
    list(first.forwards())
    second = two.begin_chunk("a meadow", FORWARD)
    list(second.forwards())
    assert first.decode().tobytes() == second.decode().tobytes() == expected[0]
    first.write()
    one.commit()
    assert len(bench.store) == 0
    second.write()
    two.commit()
    assert len(bench.store) == 1
    assert [chunk(one, m) for m in (TURN, STILL)] == [chunk(two, m) for m in (TURN, STILL)] == expected[1:3]


def test_a_model_that_is_loaded_anew_finds_nothing(bench: Bench) -> None:
    chunk(bench.world("first"))
    bench.store.clear("model loaded anew")
    chunk(bench.world("second"))
    assert bench.store.hits == 0


def test_a_chunk_that_does_not_fit_is_served_and_not_kept(bench: Bench) -> None:
    bench.store.max_bytes = 1000
    expected = walk(bench.alone())
    assert walk(bench.world("first")) == expected
    assert bench.store.live_bytes == 0


class Full(Memory):
    """Has no room for what is adopted."""

    def adopt(self, tensors: object) -> Allocation:
        raise torch.OutOfMemoryError("full")


def test_a_chunk_that_can_not_be_stored_is_served_all_the_same(bench: Bench) -> None:
    expected = walk(bench.alone())
    world = bench.world("first")
    world._memory = Full()
    assert walk(world) == expected
    assert len(bench.store) == 0
