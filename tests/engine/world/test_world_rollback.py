"""Whatever becomes of a chunk that does not commit, the world goes on as if it had never begun."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from failing_model import FailingCodec, FailingTransformer
from small_world import FORWARD, TURN, WALK, play

from engine.world.model import Model
from engine.world.world import World


@pytest.mark.parametrize("stop", ["begun", "one probe", "all probes", "decoded", "written"])
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
        if stop in ("decoded", "written"):
            chunk.decode()
        if stop == "written":
            chunk.write()
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
