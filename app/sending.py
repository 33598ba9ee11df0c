"""From an outbox to a socket."""

from __future__ import annotations

from app.channel import Channel
from app.packaging.packager import Packager
from app.replies import chunk_metadata, told
from sessions.outbox import Outbox
from sessions.outputs import ChunkOutput, Done, Failed, Terminal
from sessions.spec import Format


async def send_outputs(channel: Channel, outbox: Outbox, form: Format) -> Terminal:
    """Send what comes, up to the terminal message, which is returned. Raises `WebSocketDisconnect`."""
    packager = Packager(form.value)
    async for output in outbox:
        if isinstance(output, Done | Failed):
            return output
        if isinstance(output, ChunkOutput):
            package = packager.package(output.media)
            await channel.send(chunk_metadata(channel.request_id, output, package), package.payload)
        else:
            await channel.send(told(channel.request_id, output))
    raise AssertionError("an outbox ends with a terminal message")
