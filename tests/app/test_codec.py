import numpy as np
import pytest

from app.codec import codec_name
from engine.media.chunk import encode_chunk


@pytest.mark.parametrize("fps", [1, 16, 60])
@pytest.mark.parametrize(
    ("width", "height"),
    [(16, 16), (96, 64), (176, 144), (320, 240), (832, 480), (480, 832), (1024, 16), (1280, 720)],
)
def test_the_codec_is_known_before_the_first_chunk(width: int, height: int, fps: int) -> None:
    frames = np.random.default_rng(0).integers(0, 255, (2, height, width, 3), np.uint8)
    assert codec_name("h264", width, height, fps) == encode_chunk(frames, "h264", fps, 0).codec


def test_jpeg_names_itself() -> None:
    assert codec_name("jpeg", 96, 64, 16) == "mjpeg"
