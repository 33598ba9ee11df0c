"""What we ask of vLLM-Omni, and what becomes of its answers, beside what was recorded of 0.30 itself.

`record_answers` played the same cases with the installed package. Here its `AsyncOmni` is replayed: every
call has to be the recorded one, and everything has to come of the answers that came of them then.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from torch.testing import assert_close

pytest.importorskip("diffusers", reason="needs the extra `lingbot`")

from engine.checkpoint.load import load_model
from engine.media.image import decode_image
from engine.world.caches import make_caches
from engine.world.spec import WorldSpec
from engine.world.world import open_world
from tests.engine.omni.recorded_cases import KEYS, STARTS, Start, two_worlds, wrong_chunks
from tests.engine.omni.recorded_run import Run
from tests.engine.omni.recording import Notes, same
from tests.engine.omni.replayed_omni import ReplayedBackstage, latents, recorded
from tests.engine.omni.small_lingbot import HEIGHT, WIDTH, write_lingbot
from tests.engine.omni.stand_in_omni import StandInBackstage, published
from tests.engine.world.small_world import finish


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lingbot(tmp_path_factory.mktemp("recorded"))


@pytest.mark.parametrize("kind", ["stand-ins", "installed"])
@pytest.mark.parametrize("name", STARTS)
def test_we_ask_what_was_asked_and_make_of_the_answers_what_we_made(
    checkpoint: Path, name: str, kind: str
) -> None:
    then = recorded()["starts"][name]
    backstage = ReplayedBackstage(then["cases"], published(kind))
    run = Run(checkpoint, backstage, STARTS[name], Notes())
    run.play()
    assert backstage.over
    assert run.deployed == then["deployment"]
    assert [case["case"] for case in run.cases] == [case["case"] for case in then["cases"]]
    for case, as_recorded in zip(run.cases, then["cases"], strict=True):
        assert same(essence(case), essence(as_recorded)), case["case"]


def test_the_stand_in_does_what_was_recorded(checkpoint: Path) -> None:
    """But for latents, which it makes up."""
    start = Start((two_worlds, wrong_chunks), dtype="float32")
    run = Run(checkpoint, StandInBackstage(), start, Notes())
    run.play()
    told = {case["case"]: case for case in recorded()["starts"]["in float32"]["cases"] if case["case"]}
    for case in run.cases:
        if case["case"]:
            assert same(essence(case), essence(told[case["case"]])), case["case"]


MEADOW = "a meadow"
AHEAD = ({"keys": ("w",)},) * 3
BLOCKS = {
    "long": [(f"long: block {index}", KEYS, MEADOW) for index in range(8)],
    "ahead": [(f"camera: keys ahead, block {index}", AHEAD, MEADOW) for index in range(2)],
    "later": [
        ("camera: keys ahead from the second frame, block 0", ({"keys": ()}, *AHEAD[1:]), MEADOW),
    ],
    "up": [
        (f"camera: keys that look up, block {index}", ({"keys": ("i",)},) * 3, MEADOW) for index in range(8)
    ],
}


@pytest.mark.parametrize("walk", BLOCKS)
def test_our_own_engine_computes_the_latents_that_vllm_omni_did(checkpoint: Path, walk: str) -> None:
    """Noise, rays, conditions and K/V beyond the window, block after block, on the same weights. Of keys that
    go one way: steps aslant it scales by the block's longest one, and we by what a key is worth.
    """
    model = load_model(checkpoint)
    picture = decode_image((checkpoint / "meadow.png").read_bytes(), WIDTH, HEIGHT)
    world = open_world(model, WorldSpec("w", picture, MEADOW, 3), make_caches())
    for case, motions, prompt in BLOCKS[walk]:
        chunk = world.begin_chunk(prompt, motions)
        finish(chunk)
        world.commit()
        assert_close(chunk.clean, answered(case), atol=1e-4, rtol=0)


def answered(name: str) -> Any:
    """The latents of a recorded case."""
    (case,) = [one for one in recorded()["starts"]["in float32"]["cases"] if one["case"] == name]
    return latents()[case["calls"][0]["outputs"][0]["images"][0]["tensor"]]


def essence(case: dict[str, Any]) -> Any:
    """Without the names of tensors, and the class of an error behind an error, which the stand-ins lack."""
    case = json.loads(json.dumps(case))
    for call in case["calls"]:
        for output in call.get("outputs", ()):
            for image in output["images"]:
                del image["tensor"]
    if "cause" in case.get("raised", {}):
        del case["raised"]["cause"]["type"]
    return case
