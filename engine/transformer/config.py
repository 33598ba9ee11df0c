"""Every dimension of a world transformer, as `transformer/config.json` states it."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.camera.session_rays import SessionRays

logger = logging.getLogger(__name__)

CAMERA_INPUTS = (("framewise",), ("framewise", "session"))
IMAGE_CONDITIONS = ("first_frame", "last_latent")
CAMERA_CHANNELS = 6 * 8 * 8  # origin xyz and direction xyz, pixel-unshuffled by 8


class ConfigRefused(ValueError):
    """A configuration can't be built; names the field, what came and what is allowed."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


@dataclass(frozen=True, slots=True)
class TransformerConfig:
    """Field names are those of the checkpoint's config.json; frames are latent frames.

    `sliding_window_num_frames` is the whole view: sink, recent and current block. `in_channels` counts
    the noisy latent (`out_channels`), a mask of 4 and the image latent (`out_channels`). `camera_inputs`
    names the camera embeddings that are summed; `session` takes the features that `session_rays` describes.
    `image_condition` says what the image latent holds: the encoded first frame, or the last committed
    latent frame.
    """

    num_attention_heads: int
    attention_head_dim: int
    ffn_dim: int
    num_layers: int
    text_dim: int
    in_channels: int = 36
    out_channels: int = 16
    freq_dim: int = 256
    patch_size: tuple[int, int, int] = (1, 2, 2)
    eps: float = 1e-6
    sink_size: int = 9
    sliding_window_num_frames: int = 18
    num_frames_per_block: int = 3
    camera_channels: int = CAMERA_CHANNELS
    camera_inputs: tuple[str, ...] = ("framewise",)
    session_rays: SessionRays | None = None
    image_condition: str = "first_frame"

    @property
    def dim(self) -> int:
        """Width of a token."""
        return self.num_attention_heads * self.attention_head_dim

    @property
    def patch_volume(self) -> int:
        """Latent pixels in one patch."""
        pt, ph, pw = self.patch_size
        return pt * ph * pw

    @property
    def mask_channels(self) -> int:
        """Channels that say which latent frames of the image latent are given."""
        return self.in_channels - 2 * self.out_channels

    @property
    def session_channels(self) -> int:
        """Features per patch that the session camera input takes; 0 without one."""
        return 0 if self.session_rays is None else self.session_rays.channels

    def __post_init__(self) -> None:
        for name, value in self._sizes().items():
            _require_int(name, value, 0 if name == "sink_size" else 1)
        if isinstance(self.eps, bool) or not isinstance(self.eps, (int, float)) or not 0 < self.eps < 1:
            raise ConfigRefused("eps", f"expected a number above 0 and below 1, got {self.eps!r}")
        if len(self.patch_size) != 3 or self.patch_size[0] != 1 or min(self.patch_size) < 1:
            raise ConfigRefused("patch_size", f"expected [1, height, width], got {list(self.patch_size)}")
        if self.attention_head_dim % 2:
            raise ConfigRefused("attention_head_dim", f"must be even, got {self.attention_head_dim}")
        if self.freq_dim % 2:
            raise ConfigRefused("freq_dim", f"must be even, got {self.freq_dim}")
        if self.mask_channels < 1:
            message = f"must exceed 2 * out_channels = {2 * self.out_channels}, got {self.in_channels}"
            raise ConfigRefused("in_channels", message)
        least = self.sink_size + self.num_frames_per_block
        if self.sliding_window_num_frames < least:
            message = f"must hold sink and block, at least {least}, got {self.sliding_window_num_frames}"
            raise ConfigRefused("sliding_window_num_frames", message)
        if self.camera_inputs not in CAMERA_INPUTS:
            message = (
                f"expected one of {[list(one) for one in CAMERA_INPUTS]}, got {list(self.camera_inputs)}"
            )
            raise ConfigRefused("camera_inputs", message)
        if ("session" in self.camera_inputs) != (self.session_rays is not None):
            raise ConfigRefused("session_rays", "is given if and only if camera_inputs has `session`")
        if self.image_condition not in IMAGE_CONDITIONS:
            message = f"expected one of {list(IMAGE_CONDITIONS)}, got {self.image_condition!r}"
            raise ConfigRefused("image_condition", message)

    def _sizes(self) -> dict[str, int]:
        return {
            "num_attention_heads": self.num_attention_heads,
            "attention_head_dim": self.attention_head_dim,
            "ffn_dim": self.ffn_dim,
            "num_layers": self.num_layers,
            "text_dim": self.text_dim,
            "in_channels": self.in_channels,
            "out_channels": self.out_channels,
            "freq_dim": self.freq_dim,
            "sink_size": self.sink_size,
            "sliding_window_num_frames": self.sliding_window_num_frames,
            "num_frames_per_block": self.num_frames_per_block,
            "camera_channels": self.camera_channels,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TransformerConfig:
        """Read a checkpoint's config.json.

        Names that say something about other architectures of the family must say what this one does;
        names that are not known at all are logged and ignored. Raises `ConfigRefused`.
        """
        fields = {field.name: field for field in dataclasses.fields(cls)}
        missing = [name for name, field in fields.items() if _required(field) and name not in data]
        if missing:
            raise ConfigRefused(", ".join(missing), "missing from the transformer's config.json")
        values = {name: _frozen(data[name]) for name in fields if name in data}
        if isinstance(data.get("session_rays"), Mapping):
            values["session_rays"] = SessionRays.from_json(dict(data["session_rays"]))
        for name, only in FAMILY_FIELDS.items():
            if name in data and data[name] not in only:
                raise ConfigRefused(name, f"only {list(only)} is supported, got {data[name]!r}")
        unknown = sorted(
            n for n in data if n not in fields and n not in FAMILY_FIELDS and not n.startswith("_")
        )
        ignored = [name for name in unknown if name not in IGNORED_FIELDS]
        if ignored:
            logger.warning("transformer/config.json: ignoring unknown fields %s", ", ".join(ignored))
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        data = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        if self.session_rays is None:
            del data["session_rays"]
        else:
            data["session_rays"] = self.session_rays.to_json()
        return {"_class_name": "WorldTransformer", **data}


FAMILY_FIELDS: Mapping[str, tuple[object, ...]] = {
    "qk_norm": ("rms_norm_across_heads",),
    "cross_attn_norm": (True,),
    "added_kv_proj_dim": (None,),
    "image_dim": (None,),
    "local_attn_size": (-1,),
}
"""What sibling architectures vary and this one does not (source.

Config.json of LingBot World's diffusers export).
"""

IGNORED_FIELDS = frozenset({"rope_max_seq_len", "pos_embed_seq_len"})
"""Table sizes: our rotary tables are computed for the frames at hand and end nowhere."""


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _require_int(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigRefused(name, f"expected an integer of at least {least}, got {value!r}")


PRESETS: Mapping[str, TransformerConfig] = {
    "lingbot-world-v2-14b": TransformerConfig(
        num_attention_heads=40, attention_head_dim=128, ffn_dim=13824, num_layers=40, text_dim=4096
    ),
    "tiny": TransformerConfig(
        num_attention_heads=6,
        attention_head_dim=32,
        ffn_dim=768,
        num_layers=6,
        text_dim=64,
        freq_dim=64,
        sink_size=3,
        sliding_window_num_frames=9,
    ),
}
"""Architectures by name. A checkpoint folder's own config.json is what counts when one is loaded."""
