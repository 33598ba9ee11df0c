"""What the pattern says of itself."""

from __future__ import annotations

from engine.api import ModelCard, OpenWorld, Scene, WorldRefused
from engine.camera.commands import SCHEMAS, TRACK
from engine.pattern.world import CHUNK_FRAMES, FIRST_CHUNK_FRAMES, FRAMES_PER_BLOCK

SCENES = (
    Scene("harbour", "Harbour", "a harbour with coloured towers"),
    Scene("plain", "Plain", "a plain under a wide sky"),
    Scene("city", "City", "a city at the horizon"),
)
STEPS = 4
PAGES_PER_WORLD = 3
CONTROL_SCHEMAS = {TRACK: SCHEMAS}


def pattern_card(capacity: int, width: int = 96, height: int = 64) -> ModelCard:
    """The card of a pattern engine whose default picture is `width` x `height`."""
    return ModelCard(
        name="pattern",
        width=width,
        height=height,
        fps=16,
        size_multiple=16,
        max_pixels=480 * 832,
        first_chunk_frames=FIRST_CHUNK_FRAMES,
        chunk_frames=CHUNK_FRAMES,
        frames_per_block=FRAMES_PER_BLOCK,
        steps=STEPS,
        capacity=capacity,
        scenes=SCENES,
        control_schemas=CONTROL_SCHEMAS,
        description="A test pattern: a drawn skyline with the chunk number and the held keys. No model.",
    )


def check_request(request: OpenWorld, card: ModelCard) -> None:
    """Raise `WorldRefused` where `request` asks for what the card does not offer."""
    multiple = card.size_multiple
    for name, size in (("width", request.width), ("height", request.height)):
        if size < multiple or size % multiple:
            raise WorldRefused(name, f"{name} is {size}; a positive multiple of {multiple} is allowed")
    if request.width * request.height > card.max_pixels:
        raise WorldRefused(
            "width",
            f"{request.width}x{request.height} is too large; at most {card.max_pixels} pixels are allowed",
        )
    if request.fps < 1:
        raise WorldRefused("fps", f"fps is {request.fps}; at least 1 is allowed")
    if (request.image is None) == (request.scene is None):
        raise WorldRefused("image", "exactly one of image and scene is needed")
    names = [scene.name for scene in card.scenes]
    if request.scene is not None and request.scene not in names:
        raise WorldRefused("scene", f"scene is {request.scene[:80]!r}; allowed are {', '.join(names)}")
