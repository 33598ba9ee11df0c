"""One session: what a client can do with its world."""

from __future__ import annotations

from engine.api import Control
from sessions.events import Acceptance, Event
from sessions.info import SessionInfo
from sessions.outbox import Outbox
from sessions.outputs import ChunkOutput, ResetDone


class Session:
    """Made by `SessionManager.create`.

    Everything runs on one event loop; every call may be made at any time.
    """

    session_id: str

    def info(self) -> SessionInfo:
        """Where it stands now."""
        raise NotImplementedError

    async def submit(self, event: Event) -> Acceptance:
        """Take an event with an integer id; durable when this returns.

        Raises `InvalidEvent`, `InvalidControl`, `EventIdConflict`, `StaleEvent`, `QueueFull`,
        `SessionFailed`, `SessionClosed`, `SessionTombstoned`, `JournalUnavailable`; then nothing has changed.
        """
        raise NotImplementedError

    async def interact(
        self, name: str | None, prompt: str | None = None, controls: tuple[Control, ...] = ()
    ) -> Acceptance | None:
        """Take an interaction under the client's own string (None: one is made), as the next integer id.

        Puts `InteractionQueued` or `InteractionRejected` into the stream's outbox, and waits while that has
        no room (a client that only writes). None when it was rejected. Raises nothing that a client can
        cause.
        """
        raise NotImplementedError

    async def run_chunk(self) -> ChunkOutput:
        """Stepped mode without a stream: one chunk with all pending events, committed when this returns.

        Raises `NotStepped`, `AlreadyPlaying`, `WrongState` (no prompt after a reset; num_frames reached; a
        chunk runs), `ChunkAborted`, `SessionFailed`, `SessionClosed`, `SessionTombstoned`,
        `EngineUnavailable`.
        """
        raise NotImplementedError

    def play(self) -> Outbox:
        """Start the stream and return where its outputs appear, up to exactly one terminal message.

        Continuous: chunks follow one another, paced to media time. Stepped: one chunk now, then one per
        event. Raises `AlreadyPlaying`, `SessionFailed`, `SessionClosed`, `SessionTombstoned`.
        """
        raise NotImplementedError

    async def cancel(self) -> bool:
        """Roll back the chunk in flight; the stream goes on. Its events are pending again.

        False where there was none, or its pixels had left: then this waits for its commit.
        """
        raise NotImplementedError

    async def reset(self, resume: bool = False) -> ResetDone:
        """Back to the first frame; pending events are dropped, by id. Also puts `ResetDone` into the outbox.

        The next chunk waits for a prompt, or with `resume` starts with the opening prompt and script at once.
        Raises `SessionClosed`, `SessionTombstoned`, `EngineUnavailable`, `EngineTimeout`, `SessionFailed`.
        """
        raise NotImplementedError

    async def stop(self) -> None:
        """End the stream after rolling back the chunk in flight (`Done(stopped=True)`); idempotent."""
        raise NotImplementedError

    async def close(self, reason: str = "closed") -> None:
        """End the stream and release the world.

        Idempotent. After `SessionTombstoned` it may be called again.
        """
        raise NotImplementedError
