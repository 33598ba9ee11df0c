"""What the served model allows: a client's request, made into the session layer's frozen types."""

from __future__ import annotations

import secrets
from typing import Any

from app.controls import ACTIONS, CAMERA, check_schema, checked_prompt
from app.data_url import image_bytes
from app.fields import IMAGE_FIELD, SCRIPT_FIELD
from app.refusals import InvalidField, UnknownModel, shortened
from app.sampling import check_sampling, flow_shift_of
from app.session_request import ExtraParams, SessionRequest
from app.settings import Settings
from app.web_address import WebAddress, is_web_address, web_address
from engine.api import Control, ModelCard
from sessions.spec import Format, Mode, Pacing, SessionSpec


def served_names(card: ModelCard, settings: Settings) -> tuple[str, ...]:
    """Every name of the model; the first is the one it is listed under."""
    names = (settings.served_model_name or card.name, *settings.model_aliases, card.name)
    return tuple(dict.fromkeys(names))


def session_spec(
    request: SessionRequest,
    card: ModelCard,
    settings: Settings,
    *,
    owner: str | None = None,
    token_digest: str | None = None,
) -> SessionSpec:
    """The spec that `request` asks for. Raises `InvalidField` or `UnknownModel`, which name the field.

    Without its image where that is still to be fetched: see `linked_image`.
    """
    _check_model(request.model, served_names(card, settings))
    check_sampling(request, card)
    width, height = _size(request, card)
    image, scene = _first_frame(request, card, settings)
    extra = request.extra_params or ExtraParams()
    return SessionSpec(
        prompt=checked_prompt(request.prompt, "prompt", settings),
        width=width,
        height=height,
        fps=request.fps or card.fps,
        seed=secrets.randbelow(2**31) if request.seed is None else request.seed,
        image=image,
        scene=scene,
        mode=Mode(request.mode),
        format=Format(request.format),
        num_frames=_length(request.num_frames, card),
        flow_shift=flow_shift_of(request, card),
        session_id=request.session_id,
        script=_script(extra.camera_action_script, card),
        pacing=_pacing(extra),
        owner=owner,
        token_digest=token_digest,
    )


def linked_image(request: SessionRequest, settings: Settings) -> WebAddress | None:
    """Where the first frame is to be fetched from, if it is not in the request. Raises `InvalidField`."""
    asked = request.image_reference
    if asked is None or not is_web_address(asked.image_url):
        return None
    return web_address(asked.image_url, IMAGE_FIELD, settings.image_hosts)


def _check_model(model: str | None, names: tuple[str, ...]) -> None:
    if model is not None and model not in names:
        raise UnknownModel("model", f"must be {' or '.join(names)}; got {shortened(model)}")


def _size(request: SessionRequest, card: ModelCard) -> tuple[int, int]:
    width = card.width if request.width is None else request.width
    height = card.height if request.height is None else request.height
    for field, size in (("width", width), ("height", height)):
        if size <= 0 or size % card.size_multiple:
            raise InvalidField(field, f"must be a positive multiple of {card.size_multiple}; got {size}")
    if width * height > card.max_pixels:
        field = "width" if request.width is not None else "height"
        raise InvalidField(
            field, f"width x height must be at most {card.max_pixels} pixels; got {width}x{height}"
        )
    return width, height


def _length(frames: int | None, card: ModelCard) -> int | None:
    if frames is None:
        return None
    beyond = frames - card.first_chunk_frames
    if beyond < 0 or beyond % card.chunk_frames:
        nearest = card.first_chunk_frames + max(0, round(beyond / card.chunk_frames)) * card.chunk_frames
        allowed = f"{card.first_chunk_frames} + {card.chunk_frames} n"
        raise InvalidField("num_frames", f"must be whole chunks, {allowed}, e.g. {nearest}; got {frames}")
    return frames


def _first_frame(
    request: SessionRequest, card: ModelCard, settings: Settings
) -> tuple[bytes | None, str | None]:
    names = [scene.name for scene in card.scenes]
    if request.image_reference is not None:
        if request.scene is not None:
            raise InvalidField("scene", "give either `scene` or `image_reference`, not both")
        if linked_image(request, settings) is not None:
            return None, None
        return image_bytes(request.image_reference.image_url, IMAGE_FIELD, settings.image_max_side), None
    if request.scene is None and not names:
        raise InvalidField("image_reference", "required: this model has no scenes; got nothing")
    scene = names[0] if request.scene is None else request.scene
    if scene not in names:
        raise InvalidField("scene", f"must be one of {', '.join(names) or 'none'}; got {shortened(scene)}")
    return None, scene


def _pacing(extra: ExtraParams) -> Pacing:
    default = Pacing()
    return Pacing(
        to_media_time=default.to_media_time if extra.pace_to_media_time is None else extra.pace_to_media_time,
        lead_s=default.lead_s if extra.pacing_lead_seconds is None else extra.pacing_lead_seconds,
        max_lag_s=default.max_lag_s if extra.pacing_max_lag_seconds is None else extra.pacing_max_lag_seconds,
    )


def _script(chunks: list[list[list[str]]] | None, card: ModelCard) -> Control | None:
    if not chunks:
        return None
    check_schema(CAMERA, ACTIONS, SCRIPT_FIELD, card)
    for index, chunk in enumerate(chunks):
        if len(chunk) != card.frames_per_block:
            told = f"must hold {card.frames_per_block} lists of keys; got {len(chunk)}"
            raise InvalidField(f"{SCRIPT_FIELD}[{index}]", told)
    data: Any = {"mode": "script", "frames": [keys for chunk in chunks for keys in chunk]}
    return Control(CAMERA, ACTIONS, data)
