"""Where the one who plays a session sits: one stream at a time, and who left may come back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from sessions.audience import Audience
from sessions.clock import Alarm
from sessions.course import Course
from sessions.errors import AlreadyPlaying, SessionFailed, TakenOver
from sessions.outbox import Outbox
from sessions.outputs import ChunkOutput, Failed, Output, Resumed, Terminal
from sessions.player import Player
from sessions.protocol import SessionProtocol
from sessions.schedule import make_schedule
from sessions.services import Services
from sessions.spec import SessionSpec

log = logging.getLogger(__name__)


class Seat:
    """`broke` is called where a stream broke, `deserted` when nobody came back within the grace period.

    `interrupt` asks that the chunk in flight be rolled back.
    """

    def __init__(
        self,
        services: Services,
        spec: SessionSpec,
        protocol: SessionProtocol,
        course: Course,
        audience: Audience,
        *,
        interrupt: Callable[[], Coroutine[Any, Any, None]],
        broke: Callable[[SessionFailed], None],
        deserted: Callable[[], None],
    ) -> None:
        self._services = services
        self._spec = spec
        self._protocol = protocol
        self._course = course
        self._audience = audience
        self._interrupt = interrupt
        self._interrupting: asyncio.Task[None] | None = None
        self._broke = broke
        self._deserted = deserted
        self._player: Player | None = None
        self._playing: asyncio.Task[None] | None = None
        self._grace: Alarm | None = None
        self._arrived = 0  # tickets given to who resumes
        self._seated = 0  # the ticket of who resumed last

    @property
    def taken(self) -> bool:
        """Whether a stream plays."""
        return self._playing is not None and not self._playing.done()

    @property
    def deserted(self) -> bool:
        """Whether who played has left, and may come back."""
        return self._grace is not None

    @property
    def outbox(self) -> Outbox | None:
        """The last stream's."""
        return self._player.outbox if self._player else None

    def due(self, now: float) -> bool:
        """Whether a stream plays that has a chunk to come without anything happening."""
        return self.taken and self._player is not None and self._player.schedule.due(now) is not None

    def require_free(self) -> None:
        """Raise `AlreadyPlaying` where a stream plays."""
        if self.taken:
            raise AlreadyPlaying(f"session {self._protocol.session_id!r} has a stream already")

    def play(self) -> Outbox:
        """Start a stream. Raises `AlreadyPlaying`."""
        self.require_free()
        return self._start([])

    def arrive(self) -> int:
        """A ticket for `resume`: of two who come back, the later one plays, whoever is ready first."""
        self._arrived += 1
        return self._arrived

    def resume(self, missed: list[ChunkOutput], next_index: int, ticket: int) -> Outbox:
        """Go on with a stream behind the chunks that its client missed; whoever plays it now is sent away.

        Raises `TakenOver` where who holds a later ticket has resumed it.
        """
        taken_over = TakenOver("a newer connection plays this session")
        if ticket < self._seated:
            raise taken_over
        self._seated = ticket
        first = missed[0].transport_index if missed else next_index
        resumed = Resumed(first, self._protocol.epoch, self._protocol.chunk_index)
        player = self._player
        if not self.taken or player is None:
            return self._start([resumed, *missed])
        self._cancel_grace()
        former = player.take_over([resumed, *missed])
        former.put(Failed.of(taken_over))
        return player.outbox

    async def settled(self) -> None:
        """Wait until a stream that ends has ended."""
        if self._playing is not None and self._player is not None and self._player.over:
            await asyncio.wait([self._playing])

    def leave(self, outbox: Outbox) -> None:
        """Whoever read this outbox has gone; nothing follows where another took over, or it ended for good.

        What nobody has seen of a chunk is rolled back; who comes back gets it anew. Idempotent.
        """
        outbox.abandon()
        current = self._player is not None and self._player.outbox is outbox
        terminal = outbox.terminal
        over = terminal is not None and not (isinstance(terminal, Failed) and terminal.retryable)
        if not current or over or self._grace is not None:
            return
        if self._protocol.can_cancel():
            self._interrupting = asyncio.create_task(self._interrupt())
        clock = self._services.clock
        self._grace = clock.call_at(clock.now() + self._services.limits.grace_s, self._desert)

    def tell(self, output: Output) -> None:
        """Put it into the stream's outbox, and before the watchers."""
        if self._player is not None:
            self._player.outbox.put(output)
        self._audience.tell(output)

    def wake(self) -> None:
        """Look again whether a chunk may begin."""
        if self._player is not None:
            self._player.wake()

    def taken_in(self, event_id: int) -> None:
        """An event was accepted."""
        if self._player is not None:
            self._player.schedule.taken(event_id)
            self._player.wake()

    def restart(self, resume: bool) -> None:
        """A new epoch begins."""
        if self._player is not None:
            self._player.schedule.restart(resume)

    def end(self, terminal: Terminal | None = None) -> None:
        """Begin no other chunk; say why."""
        self._cancel_grace()
        if self._player is not None:
            if terminal is not None:
                self._player.outbox.put(terminal)
            self._player.stop()

    async def ended(self) -> None:
        """Wait for the end of the stream."""
        if self._playing is not None:
            await asyncio.wait([self._playing])

    @property
    def chunks(self) -> int:
        """Shown in this stream."""
        return self._player.chunks if self._player else 0

    def _start(self, first: list[Output]) -> Outbox:
        self._cancel_grace()
        services = self._services
        chunk_s = services.card.chunk_frames / self._spec.fps
        schedule = make_schedule(self._spec, self._protocol, chunk_s)
        player = Player(services, self._course, schedule, self._spec.num_frames, self._spec.owner)
        for output in first:
            player.outbox.put(output)
        self._player = player
        name = f"play {self._protocol.session_id}"
        self._playing = asyncio.create_task(self._play(player), name=name)
        return player.outbox

    async def _play(self, player: Player) -> None:
        try:
            await player.run()
        except Exception as bug:
            log.exception("session %s: its player broke", self._protocol.session_id)
            self._broke(SessionFailed(f"the stream broke: {bug!r}"))

    def _desert(self) -> None:
        self._grace = None
        self._deserted()

    def _cancel_grace(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
