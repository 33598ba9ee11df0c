"""One session, watched over one socket by somebody who doesn't play it."""

from __future__ import annotations

from app.channel import Channel
from app.edge import Edge
from app.errors import fault_of, field_of, message_of
from app.guards import guarded
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
        sending = send_outputs(self._channel, outbox, form)
        return await guarded(self._edge, self._channel, sending, self._receive())

    async def _receive(self) -> Done:
        """Until the watcher has seen enough."""
        while True:
            text = await self._channel.receive()
            try:
                message = parse_message(text)
                if isinstance(message, Stop):
                    return Done(0, stopped=True)
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
