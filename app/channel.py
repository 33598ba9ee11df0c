"""One WebSocket, as messages: strict JSON in, JSON and binary frames out, and exactly one close."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from app.refusals import BinaryFrame


class Channel:
    """Sends are whole: nothing comes between a chunk's metadata and its bytes.

    `active` is when anything last passed, in the event loop's seconds; `close_code` is set at its end.
    `request_id` names the stream in its messages.
    """

    def __init__(self, websocket: WebSocket, last_word_timeout_s: float) -> None:
        self._websocket = websocket
        self._last_word_timeout_s = last_word_timeout_s
        self._turn = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self.active = self._loop.time()
        self.request_id = uuid.uuid4().hex
        self.close_code: int | None = None
        self._unread: deque[str] = deque()

    async def receive(self) -> str:
        """The next text. Raises `BinaryFrame`, and `WebSocketDisconnect` when the client is gone."""
        if self._unread:
            return self._unread.popleft()
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            self.close_code = self.close_code or message["code"]
            raise WebSocketDisconnect(message["code"], message.get("reason"))
        self.active = self._loop.time()
        text: str | None = message.get("text")
        if text is None:
            raise BinaryFrame(f"binary frame of {len(message['bytes'])} bytes: send JSON text")
        return text

    def put_back(self, texts: Iterable[str]) -> None:
        """Texts that were received too early: they are received again, in their order."""
        self._unread.extend(texts)

    async def send(self, message: Mapping[str, Any], payload: bytes | None = None) -> None:
        """Send a message, and its binary frame right behind it. Raises `WebSocketDisconnect`."""
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        async with self._turn:
            await self._websocket.send_text(text)
            if payload is not None:
                await self._websocket.send_bytes(payload)
        self.active = self._loop.time()

    async def finish(self, code: int, message: Mapping[str, Any] | None = None) -> None:
        """Say a last word and close, once; quiet where the client is gone or reads no more."""
        if self.close_code is not None:
            return
        self.close_code = code
        try:
            async with asyncio.timeout(self._last_word_timeout_s):
                if message is not None:
                    await self.send(message)
                await self._websocket.close(code)
        except (TimeoutError, WebSocketDisconnect, RuntimeError):
            return  # RuntimeError: starlette's word for a socket that is closed already
