"""Traces: a span for each chunk with its stages, sent to a collector, and no more than that."""

import asyncio
import http.server
import inspect
import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="comes with the extra `trace`", exc_type=ImportError)

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.logs import about
from app.observers import Observers
from app.traces import ChunkTraces
from engine.api import StageTimes
from sessions.observer import ChunkTimes, Observer

TIMES = ChunkTimes(StageTimes(1.0, 2.0, 3.0, 4.0), 5.0, 20.0)
MS = 1_000_000


@pytest.fixture
def spans() -> Iterator[tuple[ChunkTraces, InMemorySpanExporter]]:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield ChunkTraces(provider, now_ns=lambda: 1000 * MS), exporter
    provider.shutdown()


def test_a_chunk_is_a_span_with_its_stages_end_to_end_and_its_commit_beside_the_encoder(
    spans: tuple[ChunkTraces, InMemorySpanExporter],
) -> None:
    traces, exporter = spans
    traces.chunk_committed(TIMES)
    *stages, chunk = exporter.get_finished_spans()
    assert (chunk.name, chunk.start_time, chunk.end_time) == ("chunk", 980 * MS, 1000 * MS)
    assert chunk.attributes == {"overhead_ms": 9.0}
    assert [(stage.name, stage.start_time, stage.end_time) for stage in stages] == [
        ("queue", 980 * MS, 981 * MS),
        ("denoise", 981 * MS, 983 * MS),
        ("decode", 983 * MS, 986 * MS),
        ("encode", 986 * MS, 990 * MS),
        ("commit", 986 * MS, 991 * MS),
    ]
    assert all(stage.parent == chunk.context for stage in stages)


async def test_a_span_names_the_session_and_request_of_its_task(
    spans: tuple[ChunkTraces, InMemorySpanExporter],
) -> None:
    traces, exporter = spans

    async def play() -> None:
        about(session_id="walk", request_id="stream")
        traces.chunk_committed(TIMES)

    await asyncio.create_task(play())
    chunk = exporter.get_finished_spans()[-1]
    assert chunk.attributes == {"overhead_ms": 9.0, "session_id": "walk", "request_id": "stream"}


def test_a_chunk_that_was_rolled_back_is_a_failed_span(
    spans: tuple[ChunkTraces, InMemorySpanExporter],
) -> None:
    traces, exporter = spans
    traces.chunk_aborted("cancelled")
    (chunk,) = exporter.get_finished_spans()
    assert not chunk.status.is_ok
    assert chunk.attributes == {"error.type": "cancelled"}


def test_several_observers_hear_of_everything() -> None:
    heard: list[tuple[str, tuple[Any, ...]]] = []
    methods = [name for name, _ in inspect.getmembers(Observer, inspect.isfunction) if name[0] != "_"]

    def hears(name: str) -> Any:
        return lambda self, *arguments: heard.append((name, arguments))

    listener = type("Listener", (Observer,), {name: hears(name) for name in methods})
    both = Observers(listener(), listener())
    for name in methods:
        arguments = tuple(range(len(inspect.signature(getattr(Observer, name)).parameters) - 1))
        getattr(both, name)(*arguments)
        assert heard[-2:] == [(name, arguments)] * 2
    assert len(heard) == 2 * len(methods)


class Collector(http.server.BaseHTTPRequestHandler):
    """Keeps what it is sent."""

    taken: list[Any]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        message = ExportTraceServiceRequest.FromString(body)
        type(self).taken += [
            span for part in message.resource_spans for scope in part.scope_spans for span in scope.spans
        ]
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[tuple[str, list[Any]]]:
    handler = type("Kept", (Collector,), {"taken": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", handler.taken
        server.shutdown()
        thread.join()


async def test_a_server_sends_the_chunks_of_its_sessions(
    start_server: Any, collector: tuple[str, list[Any]]
) -> None:
    endpoint, taken = collector
    server = await start_server(trace_endpoint=endpoint)
    async with server.client.stream(
        prompt="secret words", num_frames=21, session_id="traced", mode="continuous"
    ) as stream:
        await stream.done()
    await server.edge.drain()
    chunks = [span for span in taken if span.name == "chunk"]
    assert len(chunks) == 2 and len(taken) == 2 * 6
    for chunk in chunks:
        said = {item.key: item.value.string_value for item in chunk.attributes}
        assert said["session_id"] == "traced" and said["request_id"] == stream.video["request_id"]
        assert sum(span.parent_span_id == chunk.span_id for span in taken) == 5
    assert b"secret words" not in b"".join(span.SerializeToString() for span in taken)


async def test_without_a_collector_chunks_come_and_the_server_ends(start_server: Any) -> None:
    server = await start_server(trace_endpoint="http://127.0.0.1:9/v1/traces")
    async with server.client.stream(prompt="a meadow", num_frames=9) as stream:
        assert (await stream.chunk()).data
        await stream.done()
    await server.edge.drain()


async def test_without_an_endpoint_nothing_is_traced(server: Any) -> None:
    assert server.edge.traces is None
