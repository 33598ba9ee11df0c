"""Names that server and client share."""

SOCKET_PATH = "/v1/realtime/video"
CHUNK_HEADER = "X-Worldline-Chunk"
