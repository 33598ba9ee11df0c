"""How a client that lost its stream goes on: with the chunks that it missed first."""

from __future__ import annotations

from sessions.audience import Audience
from sessions.course import Course
from sessions.ending import Ending
from sessions.missed import missed_outputs
from sessions.outbox import Outbox
from sessions.protocol import SessionProtocol
from sessions.runner import ChunkRunner
from sessions.seat import Seat
from sessions.services import Services


class Comeback:
    """Of one session."""

    def __init__(
        self,
        services: Services,
        protocol: SessionProtocol,
        runner: ChunkRunner,
        audience: Audience,
        course: Course,
        seat: Seat,
        ending: Ending,
    ) -> None:
        self._services = services
        self._protocol = protocol
        self._runner = runner
        self._audience = audience
        self._course = course
        self._seat = seat
        self._ending = ending

    async def resume(self, last: int) -> Outbox:
        """See `Session.resume`."""
        ticket, tape = self._seat.arrive(), self._audience.tape
        while True:
            self._ending.require_alive()
            await self._seat.settled()
            if not self._seat.taken:
                await self._course.settle()
            epoch = self._protocol.epoch
            earlier = await missed_outputs(self._services, self._protocol, self._runner, tape, last)
            complete = not earlier or earlier[-1].transport_index + 1 >= tape.complete_from
            if self._protocol.epoch == epoch and complete:  # nothing came between
                break
        self._ending.require_alive()
        known = earlier[-1].transport_index if earlier else last
        return self._seat.resume([*earlier, *tape.since(known)], self._runner.transport_index, ticket)
