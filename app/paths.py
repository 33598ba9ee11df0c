"""Names that server and client share."""

SOCKET_PATH = "/v1/realtime/video"
CHUNK_HEADER = "X-Worldline-Chunk"


def socket_url(url: str) -> str:
    """Where the socket of the server at `url` is."""
    return "ws" + url.rstrip("/").removeprefix("http") + SOCKET_PATH
