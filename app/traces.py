"""OpenTelemetry traces, from the extra `trace`: one span per chunk, with a span of each stage in it.

A span carries the ids of its session and its request, and nothing that a client wrote. They leave in batches,
from a thread of OpenTelemetry's own, over OTLP and HTTP.
"""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from app.logs import subject
from sessions.observer import ChunkTimes, Observer

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

EXPORT_TIMEOUT_S = 2.0  # of one batch; a collector that is gone holds up the server's end no longer
PACKAGE = "opentelemetry.exporter.otlp.proto.http"


class TracesUnavailable(Exception):
    """Traces were asked for, and the packages of the extra `trace` are not installed."""


class ChunkTraces(Observer):
    """Makes the spans of committed and of rolled back chunks. `now_ns` is the time since 1970."""

    def __init__(self, provider: TracerProvider, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("worldline")
        self._now_ns = now_ns

    def chunk_committed(self, times: ChunkTimes) -> None:
        """A span that ends now. Only durations are known, so its stages are laid end to end, and the commit
        beside the encoding.
        """
        from opentelemetry.trace import set_span_in_context

        end = self._now_ns()
        start = end - _ns(times.total_ms)
        span = self._tracer.start_span("chunk", start_time=start, attributes=subject())
        span.set_attribute("overhead_ms", times.overhead_ms)
        inside = set_span_in_context(span)
        for name, began, milliseconds in _stages(times):
            began = start + _ns(began)
            self._tracer.start_span(name, inside, start_time=began).end(began + _ns(milliseconds))
        span.end(end)

    def chunk_aborted(self, code: str) -> None:
        """A span without length, with the code of the error."""
        from opentelemetry.trace import Status, StatusCode

        now = self._now_ns()
        span = self._tracer.start_span("chunk", start_time=now, attributes={**subject(), "error.type": code})
        span.set_status(Status(StatusCode.ERROR, code))
        span.end(now)

    async def aclose(self) -> None:
        """Send what is left; idempotent."""
        await asyncio.to_thread(self._provider.shutdown)


def _stages(times: ChunkTimes) -> Iterator[tuple[str, float, float]]:
    """Name, begin within the chunk, duration."""
    stages, began = times.stages, 0.0
    for name, milliseconds in (
        ("queue", stages.queue_ms),
        ("denoise", stages.denoise_ms),
        ("decode", stages.decode_ms),
    ):
        yield name, began, milliseconds
        began += milliseconds
    yield "encode", began, stages.encode_ms
    yield "commit", began, times.commit_ms


def _ns(milliseconds: float) -> int:
    return round(milliseconds * 1_000_000)


def require_traces() -> None:
    """Raises `TracesUnavailable`."""
    try:
        found = importlib.util.find_spec(PACKAGE) is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        raise TracesUnavailable("traces need the extra `trace`: pip install 'worldline[trace]'")


def start_traces(endpoint: str) -> ChunkTraces:
    """Traces to the OTLP collector at `endpoint`, e.g. `http://127.0.0.1:4318/v1/traces`."""
    require_traces()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": "worldline"}), shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_TIMEOUT_S)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return ChunkTraces(provider)
