"""Bounds of the session layer, read once and never changed."""

from __future__ import annotations

from dataclasses import dataclass, field

from sessions.quotas import Quotas


@dataclass(frozen=True, slots=True)
class Limits:
    """Counts, bytes and seconds."""

    sessions: int = 4096  # live ones in this server, tombstones included
    pending_events: int = 32  # per session
    outbox_bytes: int = 8 * 2**20  # media that waits for a slow reader before generation does
    outbox_messages: int = 256  # other messages that wait before interactions do
    reset_s: float = 30.0
    close_s: float = 30.0
    stop_s: float = 6.0  # for all sessions to be put away at the end; then the engine ends under them
    remembered_ids: int = 1024  # closed session ids that are answered with "closed" instead of "unknown"
    tape_bytes: int = 8 * 2**20  # of the last chunks, for a client that comes back
    grace_s: float = 30.0  # for a client that left to come back before its session is suspended or closed
    suspends: bool = True  # False: a session whose client stays away is closed
    snapshot_every: int = 16  # chunks
    revivals: int = 3  # of a world that is lost again before it has committed a chunk; then its session fails
    revive_s: float = 120.0  # for a lost engine to be ready again
    watchers: int = 16  # per session
    watcher_bytes: int = 2 * 2**20  # media that waits for a watcher before it is dropped
    waiting: int = 64  # clients that wait for room, in all; 0: nobody waits
    waiting_s: float = 300.0  # for room
    unacked_chunks: int = 2  # that a client which acknowledges has not acknowledged yet
    idle_s: float | None = None  # without use until a session is suspended
    lifetime_s: float | None = None  # of a session, until it is closed
    quotas: Quotas = field(default_factory=Quotas)  # of each owner
