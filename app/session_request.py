"""What a client asks of a new session, over the socket and over REST."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from app.message import Count, Message, Mode, SessionId, Text
from app.packaging.packager import Format

Scale = Annotated[float, Field(ge=0, le=20)]
Shift = Annotated[float, Field(gt=0, le=100)]

ELSEWHERE = frozenset(
    {
        "aspect_ratio",
        "audio_reference",
        "frame_interpolation_exp",
        "frame_interpolation_model_path",
        "frame_interpolation_scale",
        "lora",
        "seconds",
        "short_edge",
        "size",
        "sound_duration",
        "start_time_seconds",
        "video_params",
        "video_reference",
    }
)
"""What vLLM-Omni's video requests have for other models, and nothing here can follow: only null is taken."""


def _whole(value: Any) -> Any:
    """vLLM-Omni's rate is a float: 16.0 is 16."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class ImageReference(Message):
    """A first frame that the client brings."""

    image_url: str = Field(
        description="A data URL of a PNG, JPEG or WebP image, or a web address if the server allows its host."
    )


class ExtraParams(Message):
    """Options of a stream that belong to the model, or to pacing."""

    camera_action_script: list[list[list[str]]] | None = Field(
        None,
        description="Keys held: [chunk][3 latent frames][keys]. A stepped stream makes these chunks unasked.",
        examples=[[[["w"], ["w"], ["w"]], [["w", "l"], [], []]]],
    )
    flow_shift: Shift | None = Field(None, description="The same as `flow_shift` beside `extra_params`.")
    pace_to_media_time: bool | None = Field(None, description="Send no faster than the video plays.")
    pacing_lead_seconds: float | None = Field(
        None, ge=0, le=60, description="How far ahead of the viewer to run."
    )
    pacing_max_lag_seconds: float | None = Field(
        None, ge=0, le=600, description="How far behind before pacing starts over."
    )
    is_enable_stage2: bool | None = Field(None, description="Of another model: ignored, with a warning.")
    is_amplify_first_chunk: bool | None = Field(
        None, description="Of another model: ignored, with a warning."
    )
    pyramid_num_stages: Count | None = Field(None, description="Of another model: ignored, with a warning.")
    pyramid_num_inference_steps_list: list[Count] | None = Field(
        None, description="Of another model: ignored, with a warning."
    )


class OmniRequest(Message):
    """What vLLM-Omni's clients send beyond our own fields, taken where it asks for nothing impossible."""

    guidance_scale: Scale | None = Field(None, description="At most 1: there is no guidance.")
    guidance_scale_2: Scale | None = Field(None, description="At most 1: there is no guidance.")
    true_cfg_scale: Scale | None = Field(None, description="At most 1: there is no guidance.")
    boundary_ratio: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="Of models of two experts: ignored, with a warning."
    )
    quality: str | None = Field(
        None, max_length=64, description="There is one quality: ignored, with a warning."
    )
    num_outputs_per_prompt: Count | None = Field(None, description="Must be 1: a session shows one video.")
    generate_sound: bool | None = Field(None, description="Must be false: there is no sound.")
    enable_frame_interpolation: bool | None = Field(
        None, description="Must be false: frames are the model's own."
    )
    return_stage_metrics: bool | None = Field(
        None, description="Ignored: every chunk's metadata has its timing."
    )
    user: str | None = Field(None, max_length=512, description="Ignored: a session has its API key's owner.")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if value is not None or key not in ELSEWHERE}


class SessionRequest(OmniRequest):
    """What a client asks of a new session. Sizes, rate and length default to the model's."""

    prompt: Text | None = Field(None, description="What the world is.", examples=["a meadow with a red barn"])
    image_reference: ImageReference | None = Field(None, description="The first frame; or name a `scene`.")
    scene: str | None = Field(None, max_length=128, description="A built-in first frame; see `/v1/models`.")
    model: str | None = Field(
        None, max_length=256, description="Must be the served model's name or an alias."
    )
    width: Count | None = Field(None, description="Pixels; a multiple of the model's `size_multiple`.")
    height: Count | None = Field(None, description="Pixels; a multiple of the model's `size_multiple`.")
    fps: Annotated[int, Field(ge=1, le=120), BeforeValidator(_whole)] | None = Field(
        None, description="Frames per second of the video."
    )
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = Field(None, description="Same seed, same world.")
    num_frames: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = Field(
        None, description="Length in frames, whole chunks; without it the stream runs until it is stopped."
    )
    flow_shift: Shift | None = Field(
        None, description="Shift of the noise schedule, where the model's is not fixed (then 5 is ignored)."
    )
    negative_prompt: str | None = Field(
        None, max_length=65_536, description="Must be empty: there is no guidance."
    )
    num_inference_steps: Count | None = Field(
        None, description="The model's own count of steps; 4 is ignored, with a warning."
    )
    format: Format = Field(
        "m4s",
        description="How chunks are packed: fragmented MP4, H.264 access units, or JPEG images.",
    )
    extra_params: ExtraParams | None = Field(None, description="A camera script, and pacing.")
    session_id: SessionId | None = Field(None, description="Chosen by the client; by default generated.")
    mode: Mode = Field(
        "continuous",
        description="`continuous`: chunks follow one another, in the time of the video; `stepped`: one per "
        "event.",
    )
