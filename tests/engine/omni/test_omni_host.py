"""A host over a stand-in for vLLM-Omni: what it is asked, and what comes of every way it can fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from numpy.typing import NDArray

from engine.api import CapacityReached, OpenWorld, SnapshotRefused, Tick, UnknownWorld, WorldRefused
from engine.camera.commands import ACTIONS, TRACK, TRAJECTORY
from engine.omni.deployment import Deployment
from engine.omni.host import OmniHost
from engine.omni.installed import InstalledOmni
from engine.omni.service import OmniFailed
from engine.omni.world import OmniWorld
from engine.worker.host import Host, HostLost
from tests.engine.native.small_checkpoint import HEIGHT, WIDTH, request, write_checkpoint
from tests.engine.omni.stand_in_omni import StandInOmni, published
from tests.engine.world.small_world import finish

KEYS = ({"keys": ("w",)}, {"keys": ()}, {"keys": ("l",)})
TURN = {"rotation": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), "translation": (0.0, 0.0, 0.5)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("omni") / "small")


@pytest.fixture(params=["stand-ins", "installed"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client() -> StandInOmni:
    return StandInOmni()


@pytest.fixture
def host(folder: Path, client: StandInOmni, kind: str) -> Iterator[OmniHost]:
    classes = published(kind)
    made = OmniHost(
        folder, torch.device("cpu"), 2, None, 0.2, lambda _, timeout: InstalledOmni(client, classes, timeout)
    )
    made.load()
    yield made
    made.stop()


def opened(host: OmniHost, world: str = "w", **changed: Any) -> OmniWorld:
    return host.open(request(world, **changed))


def tick(index: int, motions: Any = KEYS, world: str = "w", prompt: str = "a meadow") -> Tick:
    return Tick("s", world, 0, f"r{index}", index, (index,), prompt, conditioning={TRACK: motions})


def play(world: OmniWorld, asked: Tick) -> NDArray[np.uint8]:
    frames = finish(world.begin_chunk(asked))
    world.commit()
    return frames


def test_chunks_have_the_lengths_that_the_card_says(host: OmniHost) -> None:
    world = opened(host)
    assert [play(world, tick(index)).shape for index in range(3)] == [
        (frames, HEIGHT, WIDTH, 3) for frames in (9, 12, 12)
    ]
    assert world.chunks == 3
    satisfied: Host = host
    assert satisfied.usage().pages_in_use == 1


def test_a_tick_carries_the_event_ids_the_prompt_and_the_keys(host: OmniHost, client: StandInOmni) -> None:
    world = opened(host, seed=9)
    play(world, tick(0))
    play(world, tick(1, prompt="snow"))
    asked = client.asked[1]
    assert (asked["session_id"], asked["request_id"], asked["chunk_index"]) == ("w", "r1", 1)
    assert (tuple(asked["applied_event_ids"]), asked["prompt"]) == ((1,), "snow")
    (control,) = asked["controls"]
    assert (control["track"], control["schema"]) == (TRACK, ACTIONS)
    assert control["data"]["mode"] == "frames"
    assert [list(keys) for keys in control["data"]["frames"]] == [["w"], [], ["l"]]
    sampling = client.sampling[1]
    assert (sampling.seed, sampling.output_type, sampling.num_inference_steps) == (9, "latent", 2)
    assert (sampling.width, sampling.height) == (WIDTH, HEIGHT)
    assert sampling.extra_args["flow_shift"] == 5.0
    assert client.prompts[1]["prompt"] == "snow"
    assert client.prompts[1]["multi_modal_data"]["image"].size == (WIDTH, HEIGHT)


def test_other_motions_go_as_the_poses_that_they_lead_to(host: OmniHost, client: StandInOmni) -> None:
    world = opened(host)
    play(world, tick(0, ({"delta": TURN},) * 3))
    play(world, tick(1, ({"delta": TURN},) * 3))
    (control,) = client.asked[1]["controls"]
    assert control["schema"] == TRAJECTORY
    ahead = [pose[2][3] for pose in control["data"]["poses"]]
    assert ahead == [2.0, *[2.5] * 4, *[3.0] * 4]  # of nine video frames, it reads 0, 4 and 8
    focal = 500 * 832 / WIDTH  # 500 pixels at this size, in the reference frame
    assert control["data"]["intrinsics"][0][0] == pytest.approx(focal)


def test_two_worlds_of_the_same_inputs_show_the_same(host: OmniHost) -> None:
    one, other = opened(host, "a"), opened(host, "b")
    for index in range(2):
        assert np.array_equal(play(one, tick(index, world="a")), play(other, tick(index, world="b")))


def another_chunk(output: Any) -> None:
    output.multimodal_output["metadata"]["ar_diffusion"]["chunk_index"] += 1


def other_events(output: Any) -> None:
    output.multimodal_output["metadata"]["ar_diffusion"]["applied_event_ids"] = (5, 6)


def no_metadata(output: Any) -> None:
    output.multimodal_output = {}


def failed(output: Any) -> None:
    output.error, output.multimodal_output = "CUDA out of memory", {}


def no_latents(output: Any) -> None:
    output.images = []


def small_latents(output: Any) -> None:
    output.images = [output.images[0][:, :, :1]]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (another_chunk, "answered for another chunk"),
        (other_events, "answered for another chunk"),
        (no_metadata, "multimodal"),
        (failed, "CUDA out of memory"),  # its own word, before that its metadata are missing
        (no_latents, "answered 0 latent tensors"),
        (small_latents, r"answered latents \[1, 16, 1, 4, 6\], expected \[1, 16, 3, 4, 6\]"),
    ],
)
def test_an_answer_that_is_not_the_tick_s_fails_the_chunk(
    host: OmniHost, client: StandInOmni, fault: Callable[[Any], None], told: str
) -> None:
    world = opened(host)
    play(world, tick(0))
    client.output_faults.append(fault)
    with pytest.raises(OmniFailed, match=told):
        play(world, tick(1))
    world.rollback()
    assert world.chunks == 1
    assert "w" not in client.next, "vLLM-Omni holds nothing of it any more"
    with pytest.raises(UnknownWorld, match="can't take a block back"):
        world.begin_chunk(tick(1))
    world.reset()
    assert play(world, tick(0)).shape[0] == 9


def test_a_deployment_of_two_replicas_is_refused_in_its_own_words(folder: Path, kind: str) -> None:
    classes = published(kind)
    host = OmniHost(
        folder, torch.device("cpu"), 1, None, 1.0, lambda *_: InstalledOmni(StandInOmni(2), classes, 1.0)
    )
    with pytest.raises(OmniFailed, match=r"exactly one replica .*got num_replicas=2"):
        host.load()


def test_a_reset_begins_anew_and_a_close_releases(host: OmniHost, client: StandInOmni) -> None:
    world = opened(host)
    first = play(world, tick(0))
    play(world, tick(1))
    world.reset()
    assert np.array_equal(play(world, tick(0)), first)
    world.close()
    world.close()
    reset, closed = client.calls
    assert reset[:2] == ("reset_ar_diffusion_session", "w")
    assert closed[:2] == ("close_ar_diffusion_session", "w")
    assert (reset[2], client.next, host.usage().pages_in_use) == (0.2, {}, 0)


def test_a_world_that_never_played_asks_nothing_of_the_worker(host: OmniHost, client: StandInOmni) -> None:
    world = opened(host)
    world.reset()
    world.close()
    assert client.calls == []


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"supported": False}, "does not support this lifecycle RPC"),
        ([False], "is not supported by every selected worker"),
        (TimeoutError("collective_rpc timed out after 0.2 s"), "timed out after"),
    ],
)
def test_a_close_that_fails_says_so_and_can_be_tried_again(
    host: OmniHost, client: StandInOmni, answer: Any, told: str
) -> None:
    world = opened(host)
    play(world, tick(0))
    client.rpc_answers.append(answer)
    with pytest.raises(OmniFailed, match=told):
        world.close()
    assert host.usage().pages_in_use == 1
    world.close()
    assert (host.usage().pages_in_use, client.next) == (0, {})


def test_a_chunk_that_is_cancelled_aborts_its_tick_and_loses_the_session_there(
    host: OmniHost, client: StandInOmni
) -> None:
    world = opened(host)
    play(world, tick(0))
    client.hanging = True
    chunk = world.begin_chunk(tick(1))
    next(chunk.forwards())
    world.rollback()
    assert client.aborted == 1
    with pytest.raises(UnknownWorld):
        world.begin_chunk(tick(1))


@pytest.mark.parametrize("step", ["chunk", "reset", "close", "rollback"])
def test_whatever_fails_of_a_vllm_omni_that_has_died_ends_the_worker(
    host: OmniHost, client: StandInOmni, step: str
) -> None:
    world = opened(host)
    play(world, tick(0))
    if step == "rollback":
        client.hanging = True
        next(world.begin_chunk(tick(1)).forwards())
    client.alive = False
    with pytest.raises(HostLost, match="vLLM-Omni has died: Stage-0 has no live replica"):
        play(world, tick(1)) if step == "chunk" else getattr(world, step)()


def test_a_chunk_that_was_never_sent_costs_nothing(host: OmniHost, client: StandInOmni) -> None:
    world = opened(host)
    play(world, tick(0))
    world.begin_chunk(tick(1))
    world.rollback()
    assert play(world, tick(1)).shape[0] == 12
    assert client.calls == []


def test_copies_are_refused_and_say_why(host: OmniHost) -> None:
    world, request = opened(host), OpenWorld("x", "p", WIDTH, HEIGHT, 16, 1, scene="meadow")
    with pytest.raises(SnapshotRefused, match="gives out no copy"):
        world.snapshot()
    with pytest.raises(SnapshotRefused, match="gives out no copy"):
        world.fork(request)
    with pytest.raises(SnapshotRefused, match="not from a snapshot"):
        host.restore(request, b"")


def test_what_can_t_be_served_is_refused_by_name(host: OmniHost) -> None:
    with pytest.raises(WorldRefused, match=f"width: got 64, expected {WIDTH}: vLLM-Omni fixes") as refused:
        opened(host, width=64)
    assert refused.value.field == "width"
    with pytest.raises(WorldRefused, match="flow_shift: expected a positive number, got -1"):
        opened(host, flow_shift=-1.0)
    opened(host, "a")
    opened(host, "b")
    with pytest.raises(CapacityReached, match="all 2 worlds are taken"):
        opened(host, "c")


def test_a_client_that_is_dead_at_the_start_is_reported(folder: Path, client: StandInOmni, kind: str) -> None:
    client.alive, classes = False, published(kind)
    host = OmniHost(
        folder, torch.device("cpu"), 1, None, 1.0, lambda _, timeout: InstalledOmni(client, classes, timeout)
    )
    with pytest.raises(OmniFailed, match="no live replica"):
        host.load()


def test_the_deployment_is_one_stage_of_the_checkpoint_s_size(folder: Path) -> None:
    deployment = Deployment(folder, 832, 480, 4, 5.0)
    with deployment.path() as path:
        (stage,) = yaml.safe_load(Path(path).read_text())["stages"]
    assert not Path(path).exists()
    assert (stage["max_num_seqs"], stage["default_sampling_params"]["output_type"]) == (1, "latent")
    assert stage["model_config"]["ar_diffusion_width"] == 832
    assert "step_execution" not in stage
    with Deployment(folder, 832, 480, 4, 5.0, "own.yaml").path() as path:
        assert path == "own.yaml"
