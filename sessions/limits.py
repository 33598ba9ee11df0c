"""Bounds of the session layer, read once and never changed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Counts, bytes and seconds."""

    sessions: int = 4096  # live ones in this server, tombstones included
    pending_events: int = 32  # per session
    outbox_bytes: int = 8 * 2**20  # media that waits for a slow reader before generation does
    outbox_messages: int = 256  # other messages that wait before interactions do
    reset_s: float = 30.0
    close_s: float = 30.0
    remembered_ids: int = 1024  # closed session ids that are answered with "closed" instead of "unknown"
