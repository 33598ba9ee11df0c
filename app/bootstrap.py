"""The only place that reaches into the engine.

What the server calls imports no torch into its process; verifying and training do, when they are called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from app.settings import Settings
from app.stores import Stores
from engine.api import EncodedChunk, Engine, Reducer
from engine.camera.reducer import CameraReducer
from engine.worker.messages import Boot
from engine.worker.process import ProcessEngine
from sessions.folder_recordings import FolderRecordings
from sessions.folder_snapshots import FolderSnapshots
from sessions.journal import Journal
from sessions.recordings import RecordingStore
from sessions.snapshots import SnapshotStore
from sessions.sql_journal import SqlJournal
from sessions.usage import FileUsage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PATTERN_HOST = "engine.pattern.host:pattern_host"
NATIVE_HOST = "engine.native.host:make_host"
OMNI_HOST = "engine.omni.host:make_host"
OMNI_SHARE = 0.8  # of a close's time: what is left lets vLLM-Omni's own word come first


def build_engine(settings: Settings) -> Engine:
    """The engine that the settings ask for, not started yet: a worker process that owns the device."""
    if settings.engine == "pattern":
        return ProcessEngine(Boot(PATTERN_HOST), control_timeout_s=settings.close_timeout_s)
    return ProcessEngine(_boot(settings), control_timeout_s=settings.close_timeout_s)


def _boot(settings: Settings) -> Boot:
    if settings.engine == "vllm-omni":
        omni: Mapping[str, object] = {
            "model": settings.model,
            "worlds": settings.omni_worlds,
            "deploy": None if settings.omni_deploy is None else str(settings.omni_deploy.resolve()),
            "control_timeout_s": settings.close_timeout_s * OMNI_SHARE,
        }
        return Boot(OMNI_HOST, omni)
    native: Mapping[str, object] = {
        "model": settings.model,
        "threads": settings.threads,
        "share_bytes": settings.share_first_chunks_bytes,
        "compiled": settings.compile,
        "tf32": settings.tf32,
    }
    return Boot(NATIVE_HOST, native)


def build_reducers() -> Mapping[str, Reducer]:
    """Control track -> reducer."""
    camera = CameraReducer()
    return {camera.track: camera}


def build_stores(settings: Settings) -> Stores:
    """All that outlives the server, in the data directory."""
    return Stores(
        build_journal(settings),
        build_snapshots(settings),
        build_recordings(settings),
        FileUsage(settings.data.resolve() / "usage.json"),
    )


def build_journal(settings: Settings) -> Journal:
    """The journal at its URL, or in the data directory, which is made where it is missing."""
    if settings.journal_url is not None:
        return SqlJournal(settings.journal_url.get_secret_value())
    settings.data.mkdir(parents=True, exist_ok=True)
    return SqlJournal(f"sqlite:///{settings.data.resolve() / 'journal.db'}")


def build_snapshots(settings: Settings) -> SnapshotStore | None:
    """Snapshots in the data directory; None where there is no room for any, or the engine has none."""
    if not settings.snapshots_max_bytes or settings.engine == "vllm-omni":
        return None
    return FolderSnapshots(settings.data.resolve() / "snapshots", max_bytes=settings.snapshots_max_bytes)


def build_recordings(settings: Settings) -> RecordingStore | None:
    """Recordings in the data directory; None where the settings leave no room for any."""
    if not settings.recordings_max_bytes:
        return None
    return FolderRecordings(settings.data.resolve() / "recordings", max_bytes=settings.recordings_max_bytes)


class Report(Protocol):
    """What recomputing a golden file found."""

    @property
    def ok(self) -> bool:
        """Whether every difference is within its tolerance."""

    def json_line(self) -> str:
        """The largest differences, as JSON."""


class VerifyRefused(Exception):
    """A golden file that is not there, or can't be recomputed. Says which and why."""


def verify_golden(prefix: Path) -> Report:
    """Recompute a transformer's golden file. Raises `VerifyRefused`."""
    from engine.verify import GoldenRefused
    from engine.verify import verify_golden as recompute

    try:
        return recompute(prefix)
    except GoldenRefused as refused:
        raise VerifyRefused(str(refused)) from None


def verify_camera(prefix: Path) -> Report:
    """Recompute a camera's golden file. Raises `VerifyRefused`."""
    from engine.verify import GoldenRefused
    from engine.verify import verify_camera as recompute

    try:
        return recompute(prefix)
    except GoldenRefused as refused:
        raise VerifyRefused(str(refused)) from None


class CapacityRefused(Exception):
    """No plan: a field is out of range, or not even one session fits. Says which, and both figures."""


def plan_capacity(geometry: str, available: int, fraction: float, requested: int) -> str:
    """The capacity plan of a geometry in JSON, as JSON. Raises `CapacityRefused`."""
    from kvcache.capacity import plan_from_geometry
    from kvcache.errors import CapacityError, GeometryRefused

    try:
        return plan_from_geometry(geometry, available, fraction, requested)
    except (CapacityError, GeometryRefused) as refused:
        raise CapacityRefused(str(refused)) from None


class GenerateRefused(Exception):
    """A video can't be made. Says which option or file, what came and what is allowed."""


@dataclass(frozen=True, slots=True)
class MadeChunk:
    """One chunk of a video: its media, its latents fp32 [1, C, F, h, w], and facts in JSON."""

    media: EncodedChunk
    latents: NDArray[np.float32]
    facts: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Making:
    """A video that is being made: facts in JSON, the number of its chunks, and the chunks as they come."""

    facts: Mapping[str, object]
    count: int
    chunks: Iterator[MadeChunk]


def generate_video(given: Mapping[str, Any]) -> Making:
    """Load a model and get ready for a video with these of `VideoOptions`.

    Raises `GenerateRefused`, also while the chunks are made.
    """
    from engine.offline.video import VideoOptions, VideoRefused, open_video

    def chunks() -> Iterator[MadeChunk]:
        try:
            for chunk in video.chunks:
                yield MadeChunk(chunk.media, chunk.latents, chunk.facts())
        except VideoRefused as refused:
            raise GenerateRefused(str(refused)) from refused.__cause__

    try:
        video = open_video(VideoOptions(**given))
    except VideoRefused as refused:
        raise GenerateRefused(str(refused)) from None
    return Making(video.facts, video.count, chunks())


def train_codec(given: Mapping[str, Any]) -> Path:
    """Train the tiny world's codec with these of `CodecOptions`; returns where the weights are."""
    from engine.tiny.train_codec import CodecOptions
    from engine.tiny.train_codec import train_codec as run

    return run(CodecOptions(**given))


def train_decoder(given: Mapping[str, Any]) -> Path:
    """Train the tiny codec's decoder with these of `DecoderOptions`; returns where the codec is."""
    from engine.tiny.train_decoder import DecoderOptions
    from engine.tiny.train_decoder import train_decoder as run

    return run(DecoderOptions(**given))


def train_world(given: Mapping[str, Any]) -> Path:
    """Train the tiny world's model with these of `WorldOptions`; returns where the weights are."""
    from engine.tiny.train_world import WorldOptions
    from engine.tiny.train_world import train_world as run

    return run(WorldOptions(**given))
