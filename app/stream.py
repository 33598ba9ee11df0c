"""One session, played over one socket: one task sends, one receives, one does what was asked, in order."""

from __future__ import annotations

import asyncio
from typing import Never

from app.channel import Channel
from app.controls import body_of
from app.edge import Edge
from app.errors import MAPPED, fault_of, field_of, message_of
from app.guards import guarded
from app.refusals import InvalidField, MessageTooLarge
from app.replies import rejection, warning
from app.sending import send_outputs
from app.wire import (
    Ack,
    Attach,
    Cancel,
    ClientMessage,
    Close,
    Interaction,
    Ping,
    Reset,
    Resume,
    Rewind,
    Start,
    Stop,
    claimed,
    parse_message,
)
from sessions.errors import SessionTombstoned
from sessions.outbox import Outbox
from sessions.outputs import Terminal
from sessions.session import Session

COMMANDS = 64  # what a client may ask ahead of what is done


class Stream:
    """Runs until its terminal message, which is returned, not sent; or raises why it can't go on."""

    def __init__(self, edge: Edge, channel: Channel, session: Session) -> None:
        self._edge = edge
        self._channel = channel
        self._session = session
        self._commands: asyncio.Queue[ClientMessage] = asyncio.Queue(COMMANDS)

    async def run(self, outbox: Outbox) -> Terminal:
        """Play. Raises `WebSocketDisconnect`, `Refusal`, `SessionError`."""
        form = self._session.info().spec.format
        sending = send_outputs(self._channel, outbox, form)
        return await guarded(self._edge, self._channel, sending, self._receive(outbox), self._act())

    async def _receive(self, outbox: Outbox) -> Never:
        while True:
            text = await self._channel.receive()
            try:
                message = self._parsed(text)
            except (InvalidField, MessageTooLarge) as error:
                await self._complain(text, error)
                continue
            match message:
                case Ping():
                    await self._channel.send({"type": "session.pong"})
                case Ack(transport_chunk_index=index):
                    outbox.ack(index)
                case Start() | Resume() | Attach():
                    await self._channel.send(
                        warning("already_started", "the stream has started already", "type")
                    )
                case _:
                    await self._commands.put(message)

    def _parsed(self, text: str) -> ClientMessage:
        longest = self._edge.settings.interaction_max_chars
        if len(text) > longest:
            raise MessageTooLarge(f"a message has at most {longest} characters; got {len(text)}")
        return parse_message(text)

    async def _complain(self, text: str, error: InvalidField | MessageTooLarge) -> None:
        row, message, field = fault_of(error), message_of(error), field_of(error)
        kind, name = claimed(text)
        if kind == "session.interaction":
            self._edge.metrics.event_taken(row.code)
            await self._channel.send(rejection(name, row.code, message, field))
        else:
            await self._channel.send(warning(row.code, message, field))

    async def _act(self) -> Never:
        while True:
            message = await self._commands.get()
            try:
                await self._do(message)
            except SessionTombstoned:
                raise
            except MAPPED as error:
                await self._channel.send(warning(fault_of(error).code, message_of(error), field_of(error)))

    async def _do(self, message: ClientMessage) -> None:
        match message:
            case Interaction():
                await self._interact(message)
            case Reset(resume=resume):
                await self._session.reset(resume)
            case Rewind(to_chunk=chunks):
                await self._session.rewind(chunks)
            case Cancel():
                await self._session.cancel()
            case Stop():
                await self._session.stop()
            case Close():
                await self._session.close("client")

    async def _interact(self, message: Interaction) -> None:
        asked = message.interaction
        card, settings = self._edge.card, self._edge.settings
        try:
            prompt, controls = body_of(
                asked.event, asked.transition_chunks, "interaction.event", card, settings
            )
        except InvalidField as error:
            row = fault_of(error)
            self._edge.metrics.event_taken(row.code)
            await self._channel.send(rejection(asked.event_id, row.code, message_of(error), error.field))
            return
        await self._session.interact(asked.event_id, prompt, controls)
