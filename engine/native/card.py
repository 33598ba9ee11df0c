"""The model card of a checkpoint, whoever runs it."""

from __future__ import annotations

from collections.abc import Iterable

from engine.api import ModelCard
from engine.camera.commands import SCHEMAS, TRACK
from engine.checkpoint.index import Card
from engine.checkpoint.scenes import SceneFile
from engine.sampler.schedule import Schedule
from engine.world.geometry import TEMPORAL_STRIDE
from engine.world.spec import SIZE_MULTIPLE


def model_card(
    card: Card, schedule: Schedule, frames_per_block: int, scenes: Iterable[SceneFile], capacity: int
) -> ModelCard:
    """What a client is told; `frames_per_block` counts latent frames, `capacity` worlds."""
    return ModelCard(
        name=card.name,
        width=card.width,
        height=card.height,
        fps=card.fps,
        size_multiple=SIZE_MULTIPLE,
        max_pixels=card.max_pixels,
        first_chunk_frames=1 + TEMPORAL_STRIDE * (frames_per_block - 1),
        chunk_frames=TEMPORAL_STRIDE * frames_per_block,
        frames_per_block=frames_per_block,
        steps=len(schedule.steps),
        capacity=capacity,
        scenes=tuple(file.scene for file in scenes),
        control_schemas={TRACK: SCHEMAS},
        description=card.description,
        flow_shift=schedule.flow_shift,
    )
