"""What `/v1/models` answers: the served model, as OpenAPI shows it."""

from __future__ import annotations

from typing import Self
from urllib.parse import quote

from pydantic import BaseModel, Field

from engine.api import ModelCard, Scene


class SceneView(BaseModel):
    """A built-in first frame."""

    name: str = Field(description="What `scene` takes.")
    title: str = Field(description="What a person is shown.")
    prompt: str = Field(description="A prompt that fits it.")
    image: str | None = Field(description="Where its picture is, if it has one.")

    @classmethod
    def of(cls, scene: Scene) -> Self:
        """The view of a scene."""
        image = None if scene.image is None else f"/v1/scenes/{quote(scene.name, safe='')}/image"
        return cls(name=scene.name, title=scene.title, prompt=scene.prompt, image=image)


class ModelView(BaseModel):
    """The served model: sizes in pixels, rate in frames per second, lengths in frames."""

    id: str = Field(description="The name that `model` takes.")
    object: str = Field(description="Always `model`.")
    aliases: list[str] = Field(description="Other names that `model` takes.")
    description: str = Field(description="What the model is, and what it is good for.")
    width: int = Field(description="Pixels, where a session asks for none.")
    height: int = Field(description="Pixels, where a session asks for none.")
    fps: int = Field(description="Frames per second, where a session asks for none.")
    size_multiple: int = Field(description="Width and height are multiples of it.")
    max_pixels: int = Field(description="Width times height at most.")
    first_chunk_frames: int = Field(description="Frames of a session's first chunk.")
    chunk_frames: int = Field(description="Frames of every later chunk.")
    frames_per_block: int = Field(description="Latent frames of a chunk: so many lists of keys a script has.")
    num_inference_steps: int = Field(description="Steps in which a chunk is made.")
    flow_shift: float | None = Field(description="Shift of its noise levels; null where they are fixed.")
    capacity: int = Field(description="Sessions that the engine has room for at once.")
    scenes: list[SceneView] = Field(description="First frames that come with the model.")
    control_schemas: dict[str, list[str]] = Field(description="Track of a control -> schemas that it takes.")

    @classmethod
    def of(cls, card: ModelCard, names: tuple[str, ...]) -> Self:
        """The view of a model card."""
        return cls(
            id=names[0],
            object="model",
            aliases=list(names[1:]),
            description=card.description,
            width=card.width,
            height=card.height,
            fps=card.fps,
            size_multiple=card.size_multiple,
            max_pixels=card.max_pixels,
            first_chunk_frames=card.first_chunk_frames,
            chunk_frames=card.chunk_frames,
            frames_per_block=card.frames_per_block,
            num_inference_steps=card.steps,
            flow_shift=card.flow_shift,
            capacity=card.capacity,
            scenes=[SceneView.of(scene) for scene in card.scenes],
            control_schemas={track: list(schemas) for track, schemas in card.control_schemas.items()},
        )


class ModelList(BaseModel):
    """The models that are served: one."""

    object: str = Field("list", description="Always `list`.")
    data: list[ModelView] = Field(description="The model.")
