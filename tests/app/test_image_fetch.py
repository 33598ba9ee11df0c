"""Fetching a first frame from the web: a local server plays the internet."""

import asyncio
import io
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpcore
import pytest
import trustme
from PIL import Image

from app.client import ServerError
from app.image_fetch import ImageFetcher, Network
from app.refusals import ImageUnavailable, InvalidField
from app.web_address import WebAddress, web_address

FIELD = "image_reference.image_url"
PUBLIC = "93.184.215.14"
HOST = "images.example.org"
Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


def png(width: int = 96, height: int = 64) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (width, height), (10, 200, 30)).save(out, "png")
    return out.getvalue()


def answer(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> Answer:
    async def write(_: bytes, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}", *headers]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)

    return write


class Internet(Network):
    """Names have the addresses that the test says; whatever is dialled ends at its server."""

    def __init__(self, port: int, *rounds: list[str]) -> None:
        super().__init__()
        self.port = port
        self.rounds = list(rounds) or [[PUBLIC]]
        self.resolved: list[str] = []
        self.dialled: list[tuple[str, int]] = []

    async def resolve(self, host: str, port: int) -> list[str]:
        self.resolved.append(host)
        return self.rounds.pop(0) if len(self.rounds) > 1 else self.rounds[0]

    async def dial(self, address: str, port: int) -> httpcore.AsyncNetworkStream:
        self.dialled.append((address, port))
        return await super().dial("127.0.0.1", self.port)


class Site:
    """A server that answers every request alike; `heads` keeps what came."""

    def __init__(self, respond: Answer) -> None:
        self.respond = respond
        self.heads: list[bytes] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            await self.respond(head, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def site(respond: Answer, secure: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    made = Site(respond)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=secure)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


def link(path: str = "/a.png", scheme: str = "http", host: str = HOST) -> WebAddress:
    return web_address(f"{scheme}://{host}{path}", FIELD, [HOST, "10.0.0.1", "2130706433", "localhost"])


async def fetched(respond: Answer, **limits: Any) -> bytes:
    async with site(respond) as local:
        fetcher = ImageFetcher(limits.get("most", 2**20), limits.get("time", 30.0), Internet(local.port))
        return await fetcher.fetch(link(), FIELD, 4096)


async def test_a_picture_is_fetched_under_its_name_from_the_address_that_was_checked() -> None:
    async with site(answer(png())) as local:
        network = Internet(local.port, [PUBLIC], ["127.0.0.1"])  # another answer would come at a second look
        assert await ImageFetcher(2**20, 30.0, network).fetch(link("/a.png?b=c"), FIELD, 4096) == png()
    assert network.dialled == [(PUBLIC, 80)] and network.resolved == [HOST]
    (head,) = local.heads
    assert head.startswith(b"GET /a.png?b=c HTTP/1.1\r\n") and b"host: images.example.org\r\n" in head.lower()
    assert b"cookie" not in head.lower() and b"authorization" not in head.lower()


async def test_tls_keeps_the_name_and_checks_the_certificate() -> None:
    authority, seen = trustme.CA(), []
    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(secure)
    secure.sni_callback = lambda _socket, name, _context: seen.append(name)
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    async with site(answer(png()), secure) as local:
        fetcher = ImageFetcher(2**20, 30.0, Internet(local.port), trusted)
        assert await fetcher.fetch(link(scheme="https"), FIELD, 4096) == png()
        assert seen == [HOST]
        stranger = ImageFetcher(2**20, 30.0, Internet(local.port))
        with pytest.raises(ImageUnavailable, match="ConnectError"):
            await stranger.fetch(link(scheme="https"), FIELD, 4096)
    assert len(local.heads) == 1


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["169.254.169.254"],
        ["::ffff:10.0.0.1"],
        ["fe80::1"],
        [PUBLIC, "10.0.0.1"],
        ["2606:4700::1", "fd00::1"],
        [],
    ],
)
async def test_a_name_with_any_private_address_is_never_dialled(addresses: list[str]) -> None:
    network = Internet(0, addresses)
    with pytest.raises(InvalidField, match="not on the public internet") as refused:
        await ImageFetcher(2**20, 30.0, network).fetch(link(), FIELD, 4096)
    assert refused.value.field == FIELD and network.dialled == []
    assert not any(address and address in str(refused.value) for address in addresses)


@pytest.mark.parametrize("host", ["10.0.0.1", "2130706433", "localhost"])
async def test_a_private_host_on_the_list_is_not_reached_either(host: str) -> None:
    with pytest.raises(InvalidField, match=r"not on the public internet|could not be fetched"):
        await ImageFetcher(2**20, 30.0).fetch(link(host=host), FIELD, 4096)


async def test_a_name_that_does_not_resolve_is_said_to_be_unreachable() -> None:
    class Nowhere(Network):
        async def resolve(self, host: str, port: int) -> list[str]:
            raise OSError("no such host")

    with pytest.raises(ImageUnavailable, match=HOST) as refused:
        await ImageFetcher(2**20, 30.0, Nowhere()).fetch(link(), FIELD, 4096)
    assert refused.value.field == FIELD


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("to", ["http://169.254.169.254/latest", "http://images.example.org/b.png", "/b.png"])
async def test_redirects_are_not_followed(status: int, to: str) -> None:
    async with site(answer(b"", f"Location: {to}", status=f"{status} Moved")) as local:
        network = Internet(local.port)
        with pytest.raises(InvalidField, match="redirects") as refused:
            await ImageFetcher(2**20, 30.0, network).fetch(link(), FIELD, 4096)
    assert len(local.heads) == 1 and len(network.dialled) == 1 and refused.value.field == FIELD


@pytest.mark.parametrize(
    ("respond", "told"),
    [
        (answer(png(), status="404 Not Found"), "404 Not Found"),
        (answer(png(), status="206 Partial Content"), "206"),
        (answer(b"<html>", "Content-Type: image/png"), "something else"),
        (answer(b""), "0 bytes"),
        (answer(png(5000, 8)), "5000x8"),
        (answer(png(), "Content-Encoding: gzip"), "compressed"),
        (answer(bytes(5000)), "at most 4096 bytes"),
    ],
)
async def test_what_is_no_picture_of_a_bounded_size_is_refused(respond: Answer, told: str) -> None:
    with pytest.raises(InvalidField, match=told) as refused:
        await fetched(respond, most=4096)
    assert refused.value.field == FIELD and not isinstance(refused.value, ImageUnavailable)


@pytest.mark.parametrize("status", ["500 Internal Server Error", "503 Service Unavailable", "429 Too Many"])
async def test_a_host_in_trouble_may_be_asked_again(status: str) -> None:
    with pytest.raises(ImageUnavailable, match=status[:3]):
        await fetched(answer(b"", status=status))


async def test_a_type_that_lies_does_not_matter_and_the_bytes_do() -> None:
    assert await fetched(answer(png(), "Content-Type: text/html")) == png()


async def test_an_endless_body_is_cut_at_the_limit() -> None:
    written = 0

    async def forever(_: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"1000\r\n" + bytes(0x1000) + b"\r\n")
            written += 0x1000
            await writer.drain()

    with pytest.raises(InvalidField, match="at most 65536 bytes"):
        await fetched(forever, most=65536)
    assert written < 64 * 2**20  # what fits into the buffers of both ends, not what it would like


@pytest.mark.parametrize(
    "head", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"]
)
async def test_a_host_that_trickles_is_given_up_in_time(head: bytes) -> None:
    async def trickle(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        await writer.drain()
        await asyncio.Event().wait()

    async with site(trickle) as local:
        fetcher = ImageFetcher(2**20, 0.2, Internet(local.port))
        with pytest.raises(ImageUnavailable, match=r"within 0\.2 seconds"):
            await fetcher.fetch(link(), FIELD, 4096)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()


async def test_a_host_that_breaks_off_is_said_to_have_failed() -> None:
    for respond in (answer(png()[:20], length=9999), answer(b"", "Broken\x00: 1")):
        with pytest.raises(ImageUnavailable):
            await fetched(respond)


async def test_many_fetches_wait_for_their_turn() -> None:
    open_now = most = 0

    async def slowly(_: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        for _ in range(20):
            await asyncio.sleep(0)
        open_now -= 1
        await answer(png())(b"", writer)

    async with site(slowly) as local:
        fetcher = ImageFetcher(2**20, 30.0, Internet(local.port))
        await asyncio.gather(*(fetcher.fetch(link(), FIELD, 4096) for _ in range(30)))
    assert 1 < most <= 8


# Through a real server

START = {"prompt": "a meadow", "image_reference": {"image_url": f"http://{HOST}/a.png"}}


async def test_a_session_begins_with_a_picture_from_the_web(start_server: Any) -> None:
    server = await start_server(image_hosts=(HOST,))
    async with site(answer(png())) as local:
        server.edge.images = ImageFetcher(2**20, 30.0, Internet(local.port))
        async with server.client.stream(**START, num_frames=9, seed=3) as linked:
            chunk = await linked.chunk()
        made = await server.client.create(**START, mode="stepped", seed=3)
        assert (await server.client.run_chunk(made["session_id"])).data == chunk.data
    assert len(local.heads) == 2


async def test_a_refused_address_is_named_on_both_ways_in(start_server: Any) -> None:
    server = await start_server(image_hosts=("localhost",))
    body = {
        "prompt": "a",
        "image_reference": {"image_url": f"http://localhost:{server.server.config.port}/x"},
    }
    inside = {"prompt": "a", "image_reference": {"image_url": "http://localhost/health"}}
    for asked in (body, inside, START):
        with pytest.raises(ServerError) as refused:
            await server.client.create(**asked)
        assert (refused.value.status, refused.value.field) == (422, FIELD)
        async with server.client.socket() as stream:
            with pytest.raises(ServerError) as refused:
                await stream.start(**asked)
            assert (refused.value.close_code, refused.value.field) == (1008, FIELD)


async def test_by_default_no_address_is_fetched(server: Any) -> None:
    with pytest.raises(ServerError, match="web addresses are not fetched") as refused:
        await server.client.create(**START)
    assert (refused.value.code, refused.value.field) == ("invalid_request", FIELD)


async def test_nothing_is_fetched_for_a_request_that_is_wrong_anyway(start_server: Any) -> None:
    server = await start_server(image_hosts=(HOST,))
    network = Internet(0)
    server.edge.images = ImageFetcher(2**20, 30.0, network)
    with pytest.raises(ServerError) as refused:
        await server.client.create(**START, width=7)
    assert refused.value.field == "width" and not network.resolved
