"""A small asynchronous client: plays a session over the socket, manages sessions over REST.

async with Client("http://127.0.0.1:8000") as client, client.stream(prompt="a meadow") as stream:
    chunk = await stream.chunk()
    await stream.keys("w")
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConcurrencyError, ConnectionClosed

from app.paths import CHUNK_HEADER, socket_url

ACTIONS = "lingbot.camera_actions.v1"


class ServerError(Exception):
    """The server refused or ended something. `close_code` is the socket's, `status` the HTTP answer's."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        field: str | None = None,
        retryable: bool = False,
        close_code: int | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.field = field
        self.retryable = retryable
        self.close_code = close_code
        self.status = status


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk: what the server says of it, its bytes, and its arrival in `perf_counter` seconds."""

    metadata: Mapping[str, Any]
    data: bytes
    arrived: float


class Stream:
    """A socket that plays one session. `messages` keeps everything that was not a chunk, in order."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.messages: list[dict[str, Any]] = []
        self.video: dict[str, Any] = {}
        self.started = 0.0

    async def start(self, **fields: Any) -> dict[str, Any]:
        """Send `session.start` and wait for `video.start`. Raises `ServerError` where it is refused."""
        self.started = time.perf_counter()
        await self.send("session.start", **fields)
        while not self.video:
            message = await self.receive()
            if isinstance(message, dict) and message["type"] == "video.start":
                self.video = message
        return self.video

    async def resume(self, session_id: str, token: str, last: int) -> dict[str, Any]:
        """Go on behind the chunk `last` of the transport (-1: none came); answers `session.resumed`."""
        fields = {"session_id": session_id, "token": token, "last_transport_chunk_index": last}
        await self.send("session.resume", **fields)
        self.video = await self.message("video.start")
        return await self.message("session.resumed")

    async def attach(self, session_id: str, token: str) -> dict[str, Any]:
        """Watch a session; answers `video.start`."""
        await self.send("session.attach", session_id=session_id, token=token)
        self.video = await self.message("video.start")
        return self.video

    async def receive(self) -> dict[str, Any] | Chunk:
        """The next message or chunk. Raises `ServerError` on `error` and where the socket has ended."""
        try:
            message: dict[str, Any] = json.loads(await self.socket.recv())
            if message["type"] == "video.chunk_metadata":
                data = await self.socket.recv(decode=False)
                return Chunk(message, data, time.perf_counter())
        except ConnectionClosed as closed:
            raise _closed(closed) from None
        self.messages.append(message)
        if message["type"] == "error":
            raise await self._error(message)
        return message

    async def chunk(self) -> Chunk:
        """The next chunk."""
        while True:
            message = await self.receive()
            if isinstance(message, Chunk):
                return message
            if message["type"] == "session.done":
                raise ServerError("done", "the stream is at its end", close_code=1000)

    async def message(self, kind: str) -> dict[str, Any]:
        """The next message of type `kind`; chunks before it are dropped."""
        while True:
            message = await self.receive()
            if isinstance(message, dict) and message["type"] == kind:
                return message

    async def done(self) -> dict[str, Any]:
        """Wait for `session.done` and the close of the socket."""
        message = await self.message("session.done")
        await self.socket.wait_closed()
        return message

    async def interact(
        self,
        *,
        prompt: str | None = None,
        camera: Mapping[str, Any] | None = None,
        event_id: str | None = None,
        transition_chunks: int | None = None,
    ) -> None:
        """Change the prompt, the camera, or both."""
        event: dict[str, Any] = {} if prompt is None else {"prompt": prompt}
        if camera is not None:
            event["multi_modal_data"] = {"camera": dict(camera)}
        interaction: dict[str, Any] = {"event": event}
        if event_id is not None:
            interaction["event_id"] = event_id
        if transition_chunks is not None:
            interaction["transition_chunks"] = transition_chunks
        await self.send("session.interaction", interaction=interaction)

    async def keys(self, *held: str, event_id: str | None = None) -> None:
        """Hold these keys (`w`, `a`, `s`, `d`, `i`, `j`, `k`, `l`) until they are changed."""
        data = {"mode": "state", "transitions": [{"actions": list(held)}]}
        await self.interact(camera={"schema": ACTIONS, "data": data}, event_id=event_id)

    async def send(self, kind: str, **fields: Any) -> None:
        """Send a message of type `kind`, e.g. `session.stop`.

        Raises `ServerError` where the socket has ended.
        """
        try:
            await self.socket.send(json.dumps({"type": kind, **fields}))
        except ConnectionClosed as closed:
            raise _closed(closed) from None

    async def _error(self, message: dict[str, Any]) -> ServerError:
        await self.socket.wait_closed()
        return ServerError(
            message["code"],
            message["message"],
            field=message.get("field"),
            retryable=message["retryable"],
            close_code=self.socket.close_code,
        )


class Client:
    """One server. Use it as a context manager."""

    def __init__(self, url: str, *, api_key: str | None = None, timeout_s: float = 60.0) -> None:
        self.url = url.rstrip("/")
        self._api_key = api_key
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self.http = httpx.AsyncClient(base_url=self.url, headers=headers, timeout=timeout_s, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the HTTP connections; idempotent."""
        await self.http.aclose()

    @asynccontextmanager
    async def socket(self) -> AsyncIterator[Stream]:
        """A connected socket on which nothing was said yet."""
        url = socket_url(self.url)
        headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        async with connect(
            url, max_size=None, compression=None, proxy=None, additional_headers=headers, ping_interval=None
        ) as socket:
            try:
                yield Stream(socket)
            finally:
                await _leave(socket)

    @asynccontextmanager
    async def stream(self, **fields: Any) -> AsyncIterator[Stream]:
        """A session that plays: `fields` are those of `session.start`."""
        async with self.socket() as stream:
            await stream.start(**fields)
            yield stream

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> httpx.Response:
        """One REST call. Raises `ServerError` for every status from 400 on."""
        answer = await self.http.request(method, path, json=body)
        if answer.status_code >= 400:
            problem = answer.json()
            raise ServerError(
                problem["code"],
                problem["detail"],
                field=problem.get("field"),
                retryable=problem["retryable"],
                status=answer.status_code,
            )
        return answer

    async def create(self, **fields: Any) -> dict[str, Any]:
        """Make a session; answers its id, token and geometry."""
        created: dict[str, Any] = (await self.call("POST", "/v1/sessions", fields)).json()
        return created

    async def run_chunk(self, session_id: str) -> Chunk:
        """Run one chunk of a stepped session, with all events that wait."""
        answer = await self.call("POST", f"/v1/sessions/{session_id}/chunks")
        return Chunk(json.loads(answer.headers[CHUNK_HEADER]), answer.content, time.perf_counter())


async def _leave(socket: ClientConnection) -> None:
    """Close, and read on meanwhile: behind unread messages the server's answer would not be heard."""
    closing = asyncio.create_task(socket.close())
    with suppress(ConnectionClosed, ConcurrencyError):  # somebody else may read
        while True:
            await socket.recv()
    await closing


def _closed(closed: ConnectionClosed) -> ServerError:
    return ServerError("closed", str(closed), close_code=closed.rcvd.code if closed.rcvd else 1006)
