from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_world import (
    CONFIG,
    FORWARD,
    HEIGHT,
    STILL,
    TURN,
    WIDTH,
    finish,
    picture,
    play,
    small_model,
    spec_of,
)
from torch import Tensor

from engine.api import WorldRefused
from engine.camera.algebra import compose
from engine.camera.integrate import Camera, press
from engine.codec.codec import History
from engine.codec.streaming import StreamingTinyCodec
from engine.sampler.schedule import Schedule, ScheduleRefused
from engine.transformer.block import LayerCache
from engine.transformer.model import BlockInputs, TextKV
from engine.transformer.modulation import Modulation
from engine.transformer.serving import ServingTransformer
from engine.world.caches import Caches, make_caches
from engine.world.model import Model
from engine.world.spec import WorldSpec
from engine.world.world import World, open_world
from kvcache.errors import CleanupFailed, OwnerExists, OwnerTombstoned
from kvcache.memory import Allocation, Memory

WALK = (FORWARD, TURN, FORWARD, STILL, FORWARD)


@pytest.fixture(scope="module")
def model() -> Model:
    return small_model()


@pytest.fixture
def caches() -> Iterator[Caches]:
    caches = make_caches()
    yield caches
    assert caches.ledger.is_consistent()
    assert caches.ledger.live_bytes == caches.memory.live_bytes


@pytest.fixture
def fresh(model: Model, caches: Caches) -> Iterator[Callable[..., World]]:
    opened: list[World] = []

    def open_one(spec: WorldSpec | None = None, model: Model = model) -> World:
        world = open_world(model, spec or spec_of(f"w{len(opened)}"), caches)
        opened.append(world)
        return world

    yield open_one
    for world in opened:
        world.close()
    assert caches.memory.live_bytes == 0


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


# -------------------------------------------------------------------------------------------------- rollback


@pytest.mark.parametrize("stop", ["begun", "one probe", "all probes", "decoded"])
@pytest.mark.parametrize("committed", [0, 1, 4])
def test_a_rolled_back_chunk_leaves_no_trace(fresh: Callable[..., World], stop: str, committed: int) -> None:
    undisturbed = play(fresh(), *WALK)
    world = fresh()
    before = play(world, *WALK[:committed])
    chunk = world.begin_chunk("night, elsewhere", TURN)
    if stop == "one probe":
        next(chunk.forwards())
    elif stop != "begun":
        for _ in chunk.forwards():
            pass
        if stop == "decoded":
            chunk.decode()
    world.rollback()
    assert world.chunks == committed
    assert before + play(world, *WALK[committed:]) == undisturbed


def test_rolling_back_without_a_chunk_does_nothing(fresh: Callable[..., World]) -> None:
    world = fresh()
    world.rollback()
    first = play(world, FORWARD)
    world.rollback()
    world.rollback()
    assert first + play(world, FORWARD) == play(fresh(), FORWARD, FORWARD)


class FailingTransformer(ServingTransformer):
    """Raises at the n-th forward from now, counting the commit's."""

    left = -1

    def forward(
        self,
        latent: Tensor,
        time: Modulation,
        block: BlockInputs,
        text: TextKV,
        caches: Sequence[LayerCache],
    ) -> Tensor:
        self._count()
        return super().forward(latent, time, block, text, caches)

    def write(
        self, latent: Tensor, time: Modulation, block: BlockInputs, text: TextKV, caches: Sequence[LayerCache]
    ) -> None:
        super().write(latent, time, block, text, caches)  # the K/V are written, and then it raises
        self._count()

    def text(self, text: Tensor) -> TextKV:
        self._count()
        return super().text(text)

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise RuntimeError("injected")


class FailingCodec(StreamingTinyCodec):
    """Raises at the n-th call from now."""

    left = -1

    def encode(self, frames: Tensor, history: History = ()) -> tuple[Tensor, History]:
        self._count()
        return super().encode(frames, history)

    def decode(self, latents: Tensor, history: History = ()) -> tuple[Tensor, History]:
        out = super().decode(latents, history)
        self._count()
        return out

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise RuntimeError("injected")


@pytest.fixture(scope="module")
def failing() -> tuple[Model, FailingTransformer, FailingCodec]:
    model = small_model()
    assert isinstance(model.transformer, ServingTransformer)
    assert isinstance(model.codec, StreamingTinyCodec)
    transformer, codec = FailingTransformer(model.transformer.module), FailingCodec(model.codec.network)
    return replace(model, transformer=transformer, codec=codec), transformer, codec


@pytest.mark.parametrize("committed", [0, 1, 4])
@pytest.mark.parametrize("call", [1, 2, 4, 5, 6])
def test_a_forward_that_raises_leaves_no_trace(
    fresh: Callable[..., World],
    failing: tuple[Model, FailingTransformer, FailingCodec],
    committed: int,
    call: int,
) -> None:
    """With a new prompt: call 1 is the text's projection, 2 to 5 are the probes, 6 is the commit."""
    model, transformer, _ = failing
    undisturbed = play(fresh(), *WALK)
    world = fresh(model=model)
    before = play(world, *WALK[:committed])
    transformer.left = call
    with pytest.raises(RuntimeError, match="injected"):
        play(world, TURN, prompt="night")
    world.rollback()
    assert world.chunks == committed
    assert before + play(world, *WALK[committed:]) == undisturbed


@pytest.mark.parametrize(("committed", "call"), [(0, 1), (0, 2), (1, 1), (1, 2), (4, 1)])
def test_a_codec_that_raises_leaves_no_trace(
    fresh: Callable[..., World],
    failing: tuple[Model, FailingTransformer, FailingCodec],
    committed: int,
    call: int,
) -> None:
    model, _, codec = failing
    undisturbed = play(fresh(), *WALK)
    world = fresh(model=model)
    before = play(world, *WALK[:committed])
    codec.left = call
    with pytest.raises(RuntimeError, match="injected"):
        play(world, TURN)
    world.rollback()
    assert before + play(world, *WALK[committed:]) == undisturbed


# ---------------------------------------------------------------------------------------------------- prompts


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


# ---------------------------------------------------------------------------------- reset, snapshots, origins


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


# ----------------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize(("width", "height"), [(40, 32), (48, 0), (8, 8), (1600, 1600)])
def test_sizes_that_no_world_can_have_are_refused(width: int, height: int) -> None:
    with pytest.raises(WorldRefused) as refusal:
        WorldSpec("w", picture(0, width, height), "", 0)
    assert refusal.value.field in ("width", "height")


def test_only_pictures_are_images() -> None:
    with pytest.raises(WorldRefused, match="image"):
        WorldSpec("w", np.zeros((32, 48, 3), np.float32), "", 0)  # type: ignore[arg-type]


def test_an_open_id_can_not_be_opened_again_and_a_closed_one_can(
    fresh: Callable[..., World], caches: Caches, model: Model
) -> None:
    world = fresh(spec_of("one"))
    with pytest.raises(OwnerExists):
        open_world(model, spec_of("one"), caches)
    world.close()
    world.close()
    fresh(spec_of("one"))


class StubbornMemory(Memory):
    """Fails to free until it is told not to."""

    stubborn = True

    def free(self, allocation: Allocation) -> None:
        if self.stubborn:
            raise OSError("the device does not answer")
        super().free(allocation)


def test_a_failed_close_leaves_a_tombstone_until_a_retry_succeeds(model: Model) -> None:
    memory = StubbornMemory()
    caches = make_caches(memory)
    world = open_world(model, spec_of(), caches)
    play(world, FORWARD)
    with pytest.raises(CleanupFailed, match="does not answer"):
        world.close()
    with pytest.raises(OwnerTombstoned):
        open_world(model, spec_of(), caches)
    memory.stubborn = False
    world.close()
    assert memory.live_bytes == caches.ledger.live_bytes == 0
    again = open_world(model, spec_of(), caches)
    again.close()


class FullMemory(Memory):
    """Has no room."""

    def allocate(self, shapes: object, dtype: torch.dtype) -> Allocation:
        raise MemoryError("full")


def test_a_world_that_finds_no_room_leaves_nothing(model: Model) -> None:
    caches = make_caches(FullMemory())
    for _ in range(2):
        with pytest.raises(MemoryError):
            open_world(model, spec_of(), caches)
    assert caches.ledger.is_consistent()


def test_a_long_session_holds_no_more_memory_than_a_short_one(
    fresh: Callable[..., World], caches: Caches
) -> None:
    world = fresh()
    play(world, *WALK)
    held = caches.memory.live_bytes
    play(world, *WALK * 8)
    assert caches.memory.live_bytes == held
    assert world.chunks == 45
