"""A client's first frame: encoded bytes to RGB pixels of the session's size."""

from __future__ import annotations

import warnings
from io import BytesIO
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from engine.api import WorldRefused

FORMATS: Final = ("PNG", "JPEG", "WEBP")
MAX_PIXELS: Final = 4096 * 4096
ORIENTATION: Final = 0x0112  # CIPA DC-008 (Exif 2.32), 4.6.4: how it has to be turned to stand upright
TURNS: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def decode_image(data: bytes, width: int, height: int) -> NDArray[np.uint8]:
    """RGB [height, width, 3]: upright by EXIF, cropped to the aspect ratio around the centre, resized.

    Raises `WorldRefused` (field `image`) for another format than PNG, JPEG or WebP, for more than
    4096x4096 pixels (seen in the header, before anything is decoded), and for damaged data.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's remarks on odd metadata and large pictures
            return _decode(data, width, height)
    except UnidentifiedImageError:
        raise WorldRefused("image", "image is not a readable PNG, JPEG or WebP") from None
    except Image.DecompressionBombError:
        raise _too_large("far too many") from None
    except (OSError, ValueError, SyntaxError) as error:
        raise WorldRefused("image", f"image can't be decoded: {error}") from None


def _decode(data: bytes, width: int, height: int) -> NDArray[np.uint8]:
    with Image.open(BytesIO(data), formats=FORMATS) as image:
        if image.width * image.height > MAX_PIXELS:
            raise _too_large(f"{image.width}x{image.height}")
        turn = TURNS.get(image.getexif().get(ORIENTATION, 1))
        upright = image if turn is None else image.transpose(turn)
        fitted = ImageOps.fit(_flatten(upright), (width, height), Image.Resampling.LANCZOS)
    return np.array(fitted, dtype=np.uint8)  # a copy: that of a picture is read-only


def _too_large(size: str) -> WorldRefused:
    return WorldRefused("image", f"image has {size} pixels; at most {MAX_PIXELS} are allowed")


def _flatten(image: Image.Image) -> Image.Image:
    """RGB, with transparency over black."""
    if image.mode.startswith("I"):  # 16 bits of grey, which Pillow would clip to the darkest 256 levels
        return Image.fromarray((np.asarray(image) >> 8).clip(0, 255).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        backdrop = Image.new("RGBA", rgba.size, (0, 0, 0, 255))
        return Image.alpha_composite(backdrop, rgba).convert("RGB")
    return image.convert("RGB")
