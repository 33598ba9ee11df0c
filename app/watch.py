"""One session, watched over one socket by somebody who doesn't play it."""

from __future__ import annotations

import asyncio

from app.channel import Channel
from app.edge import Edge
from app.errors import fault_of, field_of, message_of
from app.guards import stalled, warn_of_drain
from app.refusals import InvalidField
from app.replies import warning
from app.sending import send_outputs
from app.wire import Ack, Ping, Stop, parse_message
from sessions.outbox import Outbox
from sessions.outputs import Done, Terminal
from sessions.session import Session

WATCHERS_MAY = (Ping, Ack, Stop)


class Watch:
    """Runs until its terminal message, which is returned, not sent; or raises why it can't go on."""

    def __init__(self, edge: Edge, channel: Channel, session: Session) -> None:
        self._edge = edge
        self._channel = channel
        self._session = session

    async def run(self, outbox: Outbox) -> Terminal:
        """Watch. Raises `WebSocketDisconnect`, `Refusal`."""
        form = self._session.info().spec.format
        sender = asyncio.create_task(send_outputs(self._channel, outbox, form))
        guards = (stalled(self._edge, self._channel), warn_of_drain(self._edge, self._channel))
        tasks = [sender, *map(asyncio.create_task, (self._receive(), *guards))]
        try:
            finished, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if sender in finished:
                return sender.result()
            for task in finished:
                task.result()
            return Done(0, stopped=True)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _receive(self) -> None:
        """Until the watcher has seen enough."""
        while True:
            text = await self._channel.receive()
            try:
                message = parse_message(text)
                if isinstance(message, Stop):
                    return
                if not isinstance(message, WATCHERS_MAY):
                    raise InvalidField(
                        "type", f"{message.type} is for who plays; a watcher may ping and stop"
                    )
            except InvalidField as error:
                told = warning(fault_of(error).code, message_of(error), field_of(error))
                await self._channel.send(told)
                continue
            if isinstance(message, Ping):
                await self._channel.send({"type": "session.pong"})
