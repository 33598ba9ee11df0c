"""The compiled transformer against the eager one, on a CPU and a tiny geometry."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.api import SnapshotRefused
from engine.checkpoint.load import load_model
from engine.numerics import Numerics
from engine.transformer.compiled import CompiledTransformer
from engine.transformer.equality import TOLERANCES, compiled_or_eager, difference, predict
from engine.world.caches import make_caches
from engine.world.model import Model
from engine.world.snapshot import restore, take
from engine.world.spec import WorldSpec
from engine.world.world import World, open_world
from tests.engine.native.small_checkpoint import CONFIG, HEIGHT, WIDTH, write_checkpoint

pytestmark = [  # torch's compiler warns of itself, and takes its time
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

SIZE, TOKENS = (HEIGHT // 8, WIDTH // 8), 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("compiled") / "small")


@pytest.fixture(scope="module")
def eager(folder: Path) -> Model:
    return load_model(folder)


@pytest.fixture(scope="module")
def compiled(folder: Path) -> Model:
    """Some ten seconds of a core."""
    return load_model(folder, numerics=Numerics(compiled=True))


def opened(model: Model) -> World:
    image = np.random.default_rng(1).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    return open_world(model, WorldSpec("w", image, "a meadow", 4), make_caches())


def play(world: World, chunks: int = 4) -> list[Tensor]:
    latents = []
    for _ in range(chunks):
        chunk = world.begin_chunk("a meadow", ({"keys": ("w", "j")},) * 3)
        for _ in chunk.forwards():
            pass
        chunk.decode()
        chunk.write()
        world.commit()
        assert chunk.clean is not None
        latents.append(chunk.clean)
    return latents


def test_a_compiled_world_repeats_itself_and_stays_near_the_eager_one(eager: Model, compiled: Model) -> None:
    assert isinstance(compiled.transformer, CompiledTransformer)
    first, second, expected = play(opened(compiled)), play(opened(compiled)), play(opened(eager))
    for one, again, other in zip(first, second, expected, strict=True):
        assert torch.equal(one, again)
        assert (one - other).abs().max() <= TOLERANCES[torch.float32] * other.abs().max()


def test_all_layers_share_one_compilation_of_each_part(compiled: Model) -> None:
    transformer = compiled.transformer
    assert isinstance(transformer, CompiledTransformer)
    predict(transformer, SIZE, TOKENS)
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    predict(transformer, SIZE, TOKENS)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs <= 3
    assert CONFIG.num_layers > 1


def test_a_compiled_model_is_another_revision(eager: Model, compiled: Model) -> None:
    assert compiled.revision == f"{eager.revision} compiled"
    world = opened(eager)
    play(world, 1)
    with pytest.raises(SnapshotRefused, match="model revision"):
        restore(opened(compiled), take(world).pack())


class Drifting(CompiledTransformer):
    """Predicts what its caller says instead."""

    answers: tuple[float, ...] = (0.0, 0.0)

    def forward(self, latent: Tensor, *rest: Any) -> Tensor:
        self.answers, answer = self.answers[1:], self.answers[0]
        return torch.full_like(latent, answer)


class Broken(CompiledTransformer):
    def forward(self, latent: Tensor, *rest: Any) -> Tensor:
        raise RuntimeError("no C++ compiler was found")


@pytest.mark.parametrize(
    ("make", "told"),
    [(Drifting, "it differs from the eager one by"), (Broken, "no C++ compiler was found")],
)
def test_a_compiled_form_that_is_not_the_eager_one_is_not_served(
    eager: Model, make: type[CompiledTransformer], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    served = eager.transformer
    assert not isinstance(served, CompiledTransformer)
    module = getattr(served, "module", served)
    with caplog.at_level(logging.WARNING):
        assert compiled_or_eager(module, served, SIZE, TOKENS, make) is served
    assert told in caplog.text


def test_a_difference_is_judged_by_size_repetition_and_nan() -> None:
    expected = torch.tensor([10.0, -2.0])
    near, far = expected + 0.0009, expected + 0.0011
    assert difference(expected, near, near) is None
    assert difference(expected, far, far) == "it differs from the eager one by 0.0011, allowed are 0.001"
    assert difference(expected, near, expected) == "it predicts something else each time"
    lost = expected * torch.nan
    assert difference(expected, lost, lost) is not None
