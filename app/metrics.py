"""What Prometheus reads. Labels have few values: never an id, a prompt or an address."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from app.errors import TABLE
from app.loop_lag import LoopLag
from engine.api import Engine, EngineState
from sessions.observer import ChunkTimes, Observer
from sessions.snapshots import Kept
from sessions.state import SessionState

CLOSE_CODES = {1000, 1001, 1005, 1006, 1012} | {fault.close for fault in TABLE.values()}
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STAGES = ("queue", "denoise", "decode", "encode", "commit", "overhead")
disable_created_metrics()  # type: ignore[no-untyped-call]  # a sample per series that nobody reads

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0)

WAITS = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class EngineGauges(Collector):
    """Reads the engine's status at each scrape."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One sample of each gauge."""
        status = self._engine.status()
        for name, text, value in (
            ("queue_depth", "Chunks that wait for the device or run on it.", status.queue_depth),
            ("pages_in_use", "Pages of K/V that worlds hold.", status.pages_in_use),
            ("pages_total", "Pages of K/V in all.", status.pages_total),
            ("worlds", "Worlds that the engine holds.", status.worlds),
            ("engine_ready", "1 while the engine takes work.", int(status.state is EngineState.READY)),
        ):
            yield GaugeMetricFamily(f"worldline_{name}", text, value)


class Metrics(Observer):
    """Counts what the session layer tells; a registry of its own, so that each application starts at zero."""

    def __init__(self, engine: Engine) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(EngineGauges(engine))
        self.loop_lag = LoopLag(self.registry)
        registry = self.registry
        self._sessions = Gauge("worldline_sessions", "Sessions by state.", ("state",), registry=registry)
        for state in SessionState:
            if state is not SessionState.CLOSED:
                self._sessions.labels(state.value)
        self._stages = Histogram(
            "worldline_chunk_stage_seconds",
            "Time of a chunk in each stage; `overhead` is what the service adds.",
            ("stage",),
            buckets=SECONDS,
            registry=registry,
        )
        for stage in STAGES:
            self._stages.labels(stage)
        self._chunk = Histogram(
            "worldline_chunk_seconds", "A chunk from tick to commit.", buckets=SECONDS, registry=registry
        )
        self._first = Histogram(
            "worldline_first_chunk_seconds",
            "From asking for a session to its first chunk.",
            buckets=SECONDS,
            registry=registry,
        )
        self._control = Histogram(
            "worldline_control_to_frame_seconds",
            "From an event's arrival to the first chunk that shows it.",
            buckets=SECONDS,
            registry=registry,
        )
        self._aborted = Counter(
            "worldline_chunks_aborted", "Chunks rolled back, by error code.", ("code",), registry=registry
        )
        self._events = Counter("worldline_events", "Events by outcome.", ("outcome",), registry=registry)
        self._closed = Counter(
            "worldline_sessions_closed", "Sessions closed, by reason.", ("reason",), registry=registry
        )
        self._pruned = Counter(
            "worldline_pruned_bytes",
            "Bytes of snapshots and recordings that were let go of to stay within their bounds.",
            ("kind",),
            registry=registry,
        )
        for kept in Kept:
            self._pruned.labels(kept.value)
        self._sockets = Counter(
            "worldline_socket_closes", "Sockets closed, by close code.", ("code",), registry=registry
        )

        self._underruns = Histogram(
            "worldline_underrun_seconds",
            "How long viewers of paced streams had nothing to play, each time.",
            buckets=SECONDS,
            registry=registry,
        )
        self._dropped = Counter(
            "worldline_chunks_dropped",
            "Chunks that reached nobody, by reason.",
            ("reason",),
            registry=registry,
        )
        for reason in ("left", "watcher_too_slow"):
            self._dropped.labels(reason)
        self._line = Gauge(
            "worldline_sessions_waiting", "Clients that wait in line for room.", registry=registry
        )
        self._admission = Histogram(
            "worldline_admission_wait_seconds",
            "Time in line of those for whom there was no room at once, by how it ended.",
            ("outcome",),
            buckets=WAITS,
            registry=registry,
        )
        for outcome in ("admitted", "refused", "timeout", "left", "failed"):
            self._admission.labels(outcome)

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)

    def session_moved(self, before: SessionState | None, after: SessionState) -> None:
        """Keep the gauge of sessions by state."""
        if before is not None:
            self._sessions.labels(before.value).dec()
        if after is not SessionState.CLOSED:
            self._sessions.labels(after.value).inc()

    def session_closed(self, reason: str) -> None:
        """Count close reasons."""
        self._closed.labels(reason).inc()

    def chunk_committed(self, times: ChunkTimes) -> None:
        """Observe every stage."""
        stages = times.stages
        spent = (stages.queue_ms, stages.denoise_ms, stages.decode_ms, stages.encode_ms, times.commit_ms)
        for stage, milliseconds in zip(STAGES, (*spent, max(0.0, times.overhead_ms)), strict=True):
            self._stages.labels(stage).observe(milliseconds / 1000)
        self._chunk.observe(times.total_ms / 1000)

    def chunk_aborted(self, code: str) -> None:
        """Count rollbacks."""
        self._aborted.labels(code).inc()

    def first_chunk(self, seconds: float) -> None:
        """Observe the time to the first chunk."""
        self._first.observe(seconds)

    def control_to_frame(self, seconds: float) -> None:
        """Observe how soon an input shows."""
        self._control.observe(seconds)

    def pruned(self, kind: str, size: int) -> None:
        """Count what was let go of."""
        self._pruned.labels(kind).inc(size)

    def event_taken(self, outcome: str) -> None:
        """Count events."""
        self._events.labels(outcome).inc()

    def socket_closed(self, code: int) -> None:
        """Count close codes; a client may choose any, so only those of the protocol are told apart."""
        self._sockets.labels(str(code) if code in CLOSE_CODES else "other").inc()

    def line_moved(self, depth: int) -> None:
        """Keep the gauge of those who wait."""
        self._line.set(depth)

    def line_left(self, outcome: str, seconds: float) -> None:
        """Observe a wait."""
        self._admission.labels(outcome).observe(seconds)

    def underrun(self, seconds: float) -> None:
        """Observe a viewer's stall."""
        self._underruns.observe(seconds)

    def chunks_dropped(self, reason: str, count: int) -> None:
        """Count undelivered chunks."""
        self._dropped.labels(reason).inc(count)
