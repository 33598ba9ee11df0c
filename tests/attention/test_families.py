"""One case per model family that shaped the contract, as that family uses attention.

Each is held against attention written out in float64 below, which knows nothing of the contract.
"""

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from attention.declaration import CachePolicy, Computation, Declaration
from attention.layer import Attention
from attention.masks import build_mask
from attention.packing import pack_self
from attention.selection import BackendPolicy

torch.set_num_threads(1)

BACKENDS = ["sdpa", "math"]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def written_out(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None = None) -> Tensor:
    """BSND in float64; K/V heads repeated."""
    groups = q.shape[2] // k.shape[2]
    k, v = (tensor.double().repeat_interleave(groups, dim=2) for tensor in (k, v))
    logits = torch.einsum("bqhd,bkhd->bhqk", q.double(), k) / q.shape[-1] ** 0.5
    if hidden is not None:
        logits = logits.masked_fill(hidden, -torch.inf)
    return torch.einsum("bhqk,bkhd->bqhd", logits.softmax(-1), v)


def layer(
    backend: str, role: str, heads: int, kv_heads: int, head_dim: int, computation=Computation.CROSS, **more
):
    declaration = Declaration(computation, role, heads, kv_heads, head_dim, **more)
    return Attention(declaration, BackendPolicy(default=backend))


def close(out: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(out.double(), wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_lingbot_projects_its_prompt_once_and_uses_its_kv_in_every_forward(backend: str) -> None:
    attend = layer(backend, "world.cross", 4, 4, 32, cache=CachePolicy.CONDITION)
    text = draw(1, 7, 4, 32, seed=1), draw(1, 7, 4, 32, seed=2)
    kept = [tensor.clone() for tensor in text]
    for forward in range(5):
        q = draw(1, 18, 4, 32, seed=10 + forward)
        close(attend(q, *text), written_out(q, *text))
    assert all(torch.equal(now, then) for now, then in zip(text, kept, strict=True))


@pytest.mark.parametrize("backend", BACKENDS)
def test_helios_brings_kv_that_was_computed_elsewhere_in_plain_tensors(backend: str) -> None:
    """Precomputed K/V: slices of one flat tensor, not contiguous, with a requires-grad history gone."""
    attend = layer(backend, "world.history", 2, 2, 16, cache=CachePolicy.CONDITION)
    store = draw(2, 11, 2, 2, 16)  # [K|V, S, B, H, D]
    k, v = (store[i].transpose(0, 1)[:, 2:9] for i in range(2))
    assert not k.is_contiguous()
    q = draw(2, 5, 2, 16)
    close(attend(q, k, v), written_out(q, k, v))


@pytest.mark.parametrize("backend", BACKENDS)
def test_wan_keeps_text_and_image_softmaxes_apart(backend: str) -> None:
    """Two calls, added by the model; one softmax over both would be something else."""
    q = draw(1, 12, 4, 16)
    text, image = (draw(1, 9, 4, 16, seed=1), draw(1, 9, 4, 16, seed=2)), (draw(1, 4, 4, 16, seed=3),) * 2
    of_text, of_image = layer(backend, "world.text", 4, 4, 16), layer(backend, "world.image", 4, 4, 16)
    out = of_text(q, *text) + of_image(q, *image)
    close(out, written_out(q, *text) + written_out(q, *image))
    joint = written_out(q, *(torch.cat(both, dim=1) for both in zip(text, image, strict=True)))
    assert (out - joint).abs().max() > 0.01


@pytest.mark.parametrize("backend", BACKENDS)
def test_dreamzero_runs_two_guidance_branches_as_rows_of_a_batch(backend: str) -> None:
    """Prompts of unequal length, padded; a branch never sees the other's, nor its own padding."""
    attend, images = layer(backend, "world.text", 4, 4, 16), layer(backend, "world.image", 4, 4, 16)
    q = draw(2, 10, 4, 16)
    k, v = draw(2, 8, 4, 16, seed=1), draw(2, 8, 4, 16, seed=2)
    valid = torch.arange(8) < torch.tensor([[8], [3]])
    mask = build_mask(batch=2, query_length=10, kv_length=8, kv_valid=valid)
    ki = draw(2, 1, 4, 16, seed=3)  # an image of one token
    out = attend(q, k, v, mask) + images(q, ki, ki)
    for row, length in enumerate((8, 3)):
        one = slice(row, row + 1)
        text = written_out(q[one], k[one, :length], v[one, :length])
        close(out[one], text + written_out(q[one], ki[one], ki[one]))


class KernelWatch(torch.utils._python_dispatch.TorchDispatchMode):
    """Notes the shapes that reach an attention kernel, and what is computed on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[str] = []
        self.shapes: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.operations.append(function.__name__)
        if "scaled_dot_product" in function.__name__:
            self.shapes = [tuple(tensor.shape) for tensor in args[:3]]
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("backend", BACKENDS)
def test_stable_audio_attends_with_24_heads_to_12(backend: str) -> None:
    attend = layer(backend, "audio.cross", 24, 12, 64, cache=CachePolicy.CONDITION)
    q, k, v = draw(1, 6, 24, 64), draw(1, 5, 12, 64, seed=1), draw(1, 5, 12, 64, seed=2)
    close(attend(q, k, v), written_out(q, k, v))


def test_stable_audio_keeps_grouped_kv_compressed_into_the_kernel() -> None:
    attend = layer("sdpa", "audio.cross", 24, 12, 64)
    q, k = draw(1, 6, 24, 64), draw(1, 5, 12, 64)
    with KernelWatch() as watch:
        attend(q, k, k)
    assert watch.shapes == [(1, 24, 6, 64), (1, 12, 5, 64), (1, 12, 5, 64)]
    assert not [name for name in watch.operations if "repeat" in name or "clone" in name or "copy" in name]


@pytest.mark.parametrize("backend", BACKENDS)
def test_ltx_makes_kv_anew_at_every_denoising_step(backend: str) -> None:
    """Audio and video states attend to one another: K/V of a step, and both lengths change roles."""
    to_video = layer(backend, "av.audio_to_video", 4, 4, 16, cache=CachePolicy.NONE)
    to_audio = layer(backend, "av.video_to_audio", 4, 4, 16, cache=CachePolicy.NONE)
    video, audio = draw(1, 12, 4, 16), draw(1, 5, 4, 16, seed=1)
    for _ in range(3):
        new_video, new_audio = to_video(video, audio, audio), to_audio(audio, video, video)
        close(new_video, written_out(video, audio, audio))
        close(new_audio, written_out(audio, video, video))
        video, audio = video + new_video, audio + new_audio


@pytest.mark.parametrize("backend", BACKENDS)
def test_sana_hides_padded_keys_and_an_empty_prompt_yields_zero(backend: str) -> None:
    attend = layer(backend, "world.text", 4, 4, 16)
    q, k, v = draw(3, 9, 4, 16), draw(3, 6, 4, 16, seed=1), draw(3, 6, 4, 16, seed=2)
    lengths = (6, 2, 0)
    valid = torch.arange(6) < torch.tensor(lengths)[:, None]
    out = attend(q, k, v, build_mask(batch=3, query_length=9, kv_length=6, kv_valid=valid))
    for row, length in enumerate(lengths[:2]):
        one = slice(row, row + 1)
        close(out[one], written_out(q[one], k[one, :length], v[one, :length]))
    assert (out[2] == 0).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_minimax_packs_text_and_video_of_several_requests_in_one_joint_row(backend: str) -> None:
    """Each document is text and video together, seeing both; no document sees another."""
    attend = layer(backend, "joint.self", 4, 2, 16, Computation.SELF)
    documents = [
        (draw(1, text, 4, 16), draw(1, video, 4, 16, seed=1)) for text, video in ((3, 8), (1, 6), (5, 12))
    ]
    rows = [torch.cat(document, dim=1) for document in documents]
    q = torch.cat(rows, dim=1)
    k, v = q[:, :, ::2].contiguous(), q[:, :, 1::2].contiguous()
    bounds = [0, 11, 18, 35]
    out = attend(q, k, v, layout=pack_self(bounds))
    for start, stop in pairwise(bounds):
        close(out[:, start:stop], written_out(q[:, start:stop], k[:, start:stop], v[:, start:stop]))
