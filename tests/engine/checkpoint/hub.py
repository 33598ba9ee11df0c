"""A hub of one repository at one commit, which breaks off the first answer that holds a large file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

NAME = "owner/name"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = 15 * 2**20


class Hub(ThreadingHTTPServer):
    """`asked` is what was read of it: (path in the repository, first byte)."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.folder = folder
        self.asked: list[tuple[str, int]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client may leave."""

    def listing(self) -> list[dict[str, Any]]:
        return [entry(self.folder, file) for file in sorted(self.folder.rglob("*")) if file.is_file()]


def entry(folder: Path, file: Path) -> dict[str, Any]:
    size, name = file.stat().st_size, str(file.relative_to(folder))
    return {"type": "file", "path": name, "size": size, "oid": hashlib.sha1(name.encode()).hexdigest()}


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        files = f"/{NAME}/resolve/{COMMIT}/"
        if path == f"/api/models/{NAME}/tree/{COMMIT}":
            self.answer(json.dumps(self.server.listing()).encode())
        elif path.startswith(files):
            self.file(path.removeprefix(files))
        else:
            self.answer(b"", 404, {"X-Error-Code": "RevisionNotFound"})

    def file(self, name: str) -> None:
        data = (self.server.folder / name).read_bytes()
        given = self.headers.get("Range")
        first = int(given.removeprefix("bytes=").partition("-")[0]) if given else 0
        tag = entry(self.server.folder, self.server.folder / name)["oid"]
        headers = {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT, "X-Linked-Size": str(len(data))}
        if given:
            headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
        fresh = (name, 0) not in self.server.asked
        if self.command == "GET":
            self.server.asked.append((name, first))
        whole = len(data) < LARGE or not fresh
        self.answer(data[first:], 206 if given else 200, headers, None if whole else LARGE * 4 // 5)

    def answer(
        self, body: bytes, status: int = 200, headers: dict[str, str] | None = None, sent: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[:sent])
            self.close_connection = sent is not None


@contextmanager
def hub(folder: Path) -> Iterator[Hub]:
    """Serves a folder until the end of the block."""
    server = Hub(folder)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
