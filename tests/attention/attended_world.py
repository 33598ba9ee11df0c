"""The real world classes on small random weights, played with one attention or another."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
import torch.distributed as dist
from direct_attention import bounds, direct, direct_by_heads, direct_by_keys, direct_by_queries, gather
from torch import Tensor

from attention.declaration import Declaration, Placement
from attention.entry import build_attention
from attention.shards import even_shards
from engine.checkpoint.index import Card
from engine.codec.streaming import StreamingTinyCodec
from engine.codec.tiny import TinyCodec, TinyCodecConfig
from engine.sampler.schedule import shifted
from engine.text.words import WordTable
from engine.transformer.config import TransformerConfig
from engine.transformer.model import WorldTransformer
from engine.transformer.serving import ServingTransformer
from engine.world.caches import make_caches
from engine.world.model import Model
from engine.world.spec import WorldSpec
from engine.world.world import open_world

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
WIDTH, HEIGHT = 48, 32
CONFIG = TransformerConfig(
    num_attention_heads=2,
    attention_head_dim=16,
    ffn_dim=64,
    num_layers=2,
    text_dim=8,
    freq_dim=16,
    sink_size=3,
    sliding_window_num_frames=9,
)
WALK = ("w", "l", "wl", "", "s", "j", "ai")


class Recorded(ServingTransformer):
    """Keeps what its probes predict."""

    def __init__(self, module: WorldTransformer) -> None:
        super().__init__(module)
        self.predictions: list[Tensor] = []

    def forward(self, *args, **kwargs) -> Tensor:
        prediction = super().forward(*args, **kwargs)
        self.predictions.append(prediction.clone())
        return prediction


def recorded(attention: Callable[[Declaration], Attend] | None) -> Recorded:
    """The same weights every time; `attention` makes each layer's own, None leaves the contract in place."""
    torch.manual_seed(7)
    module = WorldTransformer(CONFIG).requires_grad_(False).eval()
    if attention is not None:
        for block in module.blocks:
            block.self_attn.attend = attention(block.self_attn.attend.declaration)
            block.cross_attn.attend = attention(block.cross_attn.attend.declaration)
    return Recorded(module)


def play(chunks: int, attention: Callable[[Declaration], Attend] | None = None) -> dict[str, list[Tensor]]:
    """Probe outputs, latents and frames of a world, in order."""
    transformer = recorded(attention)
    codec = TinyCodec(
        TinyCodecConfig(width=8, middle=8, fine=8, latents_mean=(0.1,) * 16, latents_std=(0.8,) * 16)
    )
    for parameter in codec.parameters():
        parameter.data.normal_(0, 0.1)
    model = Model(
        transformer=transformer,
        codec=StreamingTinyCodec(codec),
        text_encoder=WordTable.create(("meadow", "desert"), CONFIG.text_dim),
        schedule=shifted((1000.0, 750.0, 500.0, 250.0), 5.0),
        card=Card("small", WIDTH, HEIGHT),
        revision="small",
    )
    image = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    world = open_world(model, WorldSpec("w", image, "a meadow", 3), make_caches())
    latents, frames = [], []
    for number in range(chunks):
        motions = [{"keys": tuple(WALK[(number + i) % len(WALK)])} for i in range(3)]
        chunk = world.begin_chunk("a meadow" if number < 10 else "a desert", motions)
        for _ in chunk.forwards():
            assert chunk.clean is not None
            latents.append(chunk.clean.clone())
        frames.extend(torch.from_numpy(chunk.decode().copy()).unbind())
        chunk.write()
        world.commit()
    world.close()
    return {"probes": transformer.predictions, "latents": latents, "frames": frames}


def by_queries(declaration: Declaration) -> Attend:
    """The contract, where each rank holds its share of the queries; their outputs are gathered."""
    attend = build_attention(replace(declaration, placement=Placement.LOCAL_Q_REPLICATED_KV))

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        lie = even_shards(q.shape[1], dist.get_world_size(), dist.get_rank())
        return gather(attend(q[:, lie.start : lie.stop], k, v, None, lie), list(lie.lengths))

    return run


def by_keys(declaration: Declaration) -> Attend:
    """The contract, where each rank holds its share of the keys."""
    attend = build_attention(replace(declaration, placement=Placement.REPLICATED_Q_SHARDED_KV))

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        lie = even_shards(k.shape[1], dist.get_world_size(), dist.get_rank())
        return attend(q, k[:, lie.start : lie.stop], v[:, lie.start : lie.stop], None, lie)

    return run


def play_placed(chunks: int) -> dict[str, dict[str, list[Tensor]]]:
    """The world at this group's topology: by the contract and by plain calls. Runs on every rank."""
    divides = CONFIG.num_attention_heads % dist.get_world_size() == 0
    plain_keys = direct_by_heads if divides else direct_by_keys
    return {
        "queries, contract": play(chunks, by_queries),
        "queries, direct": play(chunks, lambda _: direct_by_queries),
        "keys, contract": play(chunks, by_keys),
        "keys, direct": play(chunks, lambda _: plain_keys),
        "calls": {"worst": [torch.tensor(worst_call(plain_keys))]},
    }


def worst_call(plain_keys: Attend) -> float:
    """The direct ways themselves against one process, or equality with them would say little."""
    generator = torch.Generator().manual_seed(5)
    q, k, v = (torch.randn(1, n, 2, 16, generator=generator) for n in (18, 54, 54))
    assert sum(b - a for a, b in bounds(54)) == 54
    return max(float((way(q, k, v) - direct(q, k, v)).abs().max()) for way in (direct_by_queries, plain_keys))
