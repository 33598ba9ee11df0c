"""A first frame from the web: off unless hosts are allowed, and never a way into the server's own network."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable
from http import HTTPStatus

import httpcore

from app.picture import checked_picture
from app.public_addresses import is_public
from app.refusals import ImageUnavailable, InvalidField
from app.web_address import WebAddress

AT_ONCE = 8  # fetches; more wait, within their time

SocketOptions = Iterable[
    tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
]


class Network(httpcore.AsyncNetworkBackend):
    """Resolves a name once, and connects to the very address that was checked.

    A name that also has an address of a private network is refused as a whole. TLS and the `Host` header keep
    the name. Tests put other answers in `resolve` and another end in `dial`.
    """

    def __init__(self) -> None:
        self._backend = httpcore.AnyIOBackend()

    async def resolve(self, host: str, port: int) -> list[str]:
        """The addresses of `host`. Raises `OSError`."""
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))

    async def dial(self, address: str, port: int) -> httpcore.AsyncNetworkStream:
        """A connection to an address that was checked. Raises `httpcore.ConnectError`."""
        return await self._backend.connect_tcp(address, port)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's signature
        local_address: str | None = None,
        socket_options: SocketOptions | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Resolve, check, connect."""
        try:
            addresses = await self.resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"{host} has no address") from error
        if not addresses or not all(map(is_public, addresses)):
            raise NotPublic(host)
        return await self.dial(addresses[0], port)


class NotPublic(Exception):
    """A host has an address that is not on the public internet."""


class ImageFetcher:
    """Fetches pictures of at most `max_bytes` within `timeout_s` seconds; follows no redirects."""

    def __init__(
        self,
        max_bytes: int,
        timeout_s: float,
        network: Network | None = None,
        trusted: ssl.SSLContext | None = None,
    ) -> None:
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._network = network or Network()
        self._trusted = trusted
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def fetch(self, address: WebAddress, field: str, max_side: int) -> bytes:
        """The picture at `address`. Raises `InvalidField` or `ImageUnavailable`, which name `field`."""
        try:
            async with asyncio.timeout(self._timeout_s), self._turns:
                data = await self._get(address, field)
        except TimeoutError:
            told = f"{address.host} did not send the image within {self._timeout_s:g} seconds"
            raise ImageUnavailable(field, told) from None
        except NotPublic:
            told = f"{address.host} has an address that is not on the public internet"
            raise InvalidField(field, told) from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
            told = f"the image could not be fetched from {address.host}: {type(error).__name__}"
            raise ImageUnavailable(field, told) from None
        return checked_picture(data, field, max_side)

    async def _get(self, address: WebAddress, field: str) -> bytes:
        url = httpcore.URL(scheme=address.scheme, host=address.host, port=address.port, target=address.target)
        headers = [("Host", address.authority), ("Accept", "image/*"), ("Accept-Encoding", "identity")]
        pool = httpcore.AsyncConnectionPool(ssl_context=self._trusted, network_backend=self._network)
        async with pool, pool.stream("GET", url, headers=headers) as response:
            _check_answer(response, address, field)
            return await self._body(response, field)

    async def _body(self, response: httpcore.Response, field: str) -> bytes:
        parts, size = [], 0
        async for part in response.aiter_stream():
            size += len(part)
            if size > self._max_bytes:
                raise InvalidField(field, f"an image has at most {self._max_bytes} bytes; got more")
            parts.append(part)
        return b"".join(parts)


def _check_answer(response: httpcore.Response, address: WebAddress, field: str) -> None:
    status = response.status
    if 300 <= status < 400:
        raise InvalidField(field, f"{address.host} redirects ({status}), which is not followed")
    if status in (408, 425, 429) or status >= 500:
        raise ImageUnavailable(field, f"{address.host} answered {_phrase(status)}")
    if status != 200:
        raise InvalidField(field, f"{address.host} answered {_phrase(status)}")
    encodings = [value.lower() for name, value in response.headers if name.lower() == b"content-encoding"]
    if any(value != b"identity" for value in encodings):
        raise InvalidField(field, f"{address.host} sent the image in a compressed form, which is not taken")


def _phrase(status: int) -> str:
    known = {code.value: code.phrase for code in HTTPStatus}
    return f"{status} {known.get(status, '')}".strip()
