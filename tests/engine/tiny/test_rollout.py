"""Training's own wiring of K/V and conditions against the classes that serve."""

import numpy as np
import pytest
import torch

from engine.camera.session_rays import SessionRays
from engine.checkpoint.index import Card
from engine.codec.streaming import StreamingTinyCodec
from engine.codec.tiny import TinyCodec, TinyCodecConfig
from engine.sampler.schedule import Schedule, Step
from engine.text.words import WordTable
from engine.tiny.conditioning import batched_poses, embed_cameras
from engine.tiny.export import model_index
from engine.tiny.objective import BLOCKS, FRAMES, TeacherCache, conditions, inputs, to_blocks, view_mask
from engine.tiny.places import MEADOW
from engine.tiny.rollout import ViewCache, rollout
from engine.tiny.train_world import TEXT_DIM, config_of
from engine.tiny.visits import Start, letters, picture, random_keys, walk_from
from engine.tiny.watch import SIGMAS
from engine.tiny.words import WORDS
from engine.transformer.model import WorldTransformer
from engine.world.caches import make_caches
from engine.world.model import Model
from engine.world.spec import WorldSpec
from engine.world.world import open_world

torch.set_num_threads(1)
RAYS = SessionRays()
START = Start(0, 0)


@pytest.fixture(scope="module")
def model() -> Model:
    torch.manual_seed(0)
    transformer = WorldTransformer(config_of(RAYS)).requires_grad_(False).eval()
    config = TinyCodecConfig(latents_mean=(0.0,) * 16, latents_std=(1.0,) * 16)
    codec = StreamingTinyCodec(TinyCodec(config))
    schedule = Schedule(tuple(Step(1000 * sigma, sigma) for sigma in SIGMAS), "sample")
    card = Card(**{n: tuple(v) if isinstance(v, list) else v for n, v in model_index()["worldline"].items()})
    return Model(transformer, codec, WordTable.create(WORDS, TEXT_DIM), schedule, card, "test")


def image_latents(model: Model, first: np.ndarray) -> torch.Tensor:
    frame = torch.from_numpy(first).permute(2, 0, 1).float() / 127.5 - 1
    blank = torch.zeros(20, *frame.shape)
    return model.codec.encode(torch.cat([frame[None], blank])[None])[0].transpose(1, 2)  # [1, 6, C, h, w]


def test_a_training_rollout_is_what_the_served_world_makes(model: Model) -> None:
    keys = random_keys((7, 7), 4)
    walk = walk_from(START, keys)
    first = picture(MEADOW, walk.stances[:1])[0]
    latents = image_latents(model, first)
    text = model.text_encoder.encode(MEADOW.prompt)
    stances = torch.from_numpy(walk.stances)[None]
    expected = rollout(model.transformer, stances, latents[:, :3], text, latents[0, 5], RAYS, SIGMAS, seed=5)
    origin = tuple(tuple(row) for row in batched_poses(stances)[0, 0].tolist())
    world = open_world(model, WorldSpec("w", first, MEADOW.prompt, 5, origin), make_caches())
    for number, block in enumerate(keys.reshape(-1, 3, 4).tolist()):
        chunk = world.begin_chunk(MEADOW.prompt, [{"keys": letters(row)} for row in block])
        for _ in chunk.forwards():
            pass
        assert chunk.clean is not None
        made = chunk.clean.transpose(1, 2)
        torch.testing.assert_close(made, expected[:, 3 * number : 3 * number + 3], atol=2e-3, rtol=2e-3)
        chunk.decode()
        chunk.write()
        world.commit()
    world.close()


def test_teacher_forcing_shows_a_block_what_the_rollout_shows_it(model: Model) -> None:
    transformer = model.transformer
    keys = random_keys((7, 8), BLOCKS)
    poses = batched_poses(torch.from_numpy(walk_from(START, keys).stances))
    before, after = poses[:-1].view(-1, FRAMES, 4, 4), poses[1:].view(-1, FRAMES, 4, 4)
    generator = torch.Generator().manual_seed(1)
    clean = to_blocks(torch.randn(1, 15, 16, 8, 12, generator=generator))
    noisy = torch.randn(clean.shape, generator=generator)
    image, constant = torch.randn(1, 3, 16, 8, 12, generator=generator), torch.zeros(16, 8, 12)
    first = torch.arange(BLOCKS) == 0
    positions = torch.arange(15.0).view(BLOCKS, FRAMES)
    text = transformer.text(model.text_encoder.encode(MEADOW.prompt).expand(2 * BLOCKS, -1, -1))
    block = inputs(
        transformer,
        embed_cameras(transformer, before, after, RAYS).repeat(2, 1, 1),
        conditions(image.expand(BLOCKS, -1, -1, -1, -1), constant, first, FRAMES).repeat(2, 1, 1, 1, 1),
        positions.repeat(2, 1),
    )
    times = torch.cat([torch.zeros(BLOCKS, 1), torch.full((BLOCKS, 1), 600.0)])
    mask = view_mask(torch.ones(1, BLOCKS, dtype=torch.bool))
    out = transformer(
        torch.cat([clean, noisy]),
        transformer.time(times),
        block,
        text,
        [TeacherCache()] * transformer.config.num_layers,
        mask,
    )[BLOCKS:]
    caches = [ViewCache() for _ in transformer.blocks]
    one_text = transformer.text(model.text_encoder.encode(MEADOW.prompt))
    for index in range(BLOCKS):
        camera = embed_cameras(transformer, before[index : index + 1], after[index : index + 1], RAYS)
        condition = conditions(image, constant, first[index : index + 1], FRAMES)
        alone = inputs(transformer, camera, condition, positions[index : index + 1])
        times_now = transformer.time(torch.tensor(600.0)), transformer.time(torch.tensor(0.0))
        shown = transformer(noisy[index : index + 1], times_now[0], alone, one_text, caches)
        torch.testing.assert_close(shown, out[index : index + 1], atol=2e-4, rtol=2e-4)
        for cache in caches:
            cache.keep = True
        transformer(clean[index : index + 1], times_now[1], alone, one_text, caches)
        for cache in caches:
            cache.keep = False
