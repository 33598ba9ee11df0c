"""The chunks that a client which comes back has not got, where the tape does not have them any more."""

from __future__ import annotations

from engine.api import EncodedChunk
from sessions.errors import ChunksGone, NoSuchChunk
from sessions.history import Link
from sessions.outputs import ChunkOutput
from sessions.protocol import SessionProtocol
from sessions.runner import ChunkRunner
from sessions.services import Services
from sessions.tape import Tape


async def missed_outputs(
    services: Services, protocol: SessionProtocol, runner: ChunkRunner, tape: Tape, last: int
) -> list[ChunkOutput]:
    """This epoch's chunks behind the transport index `last`, up to where the tape is complete.

    Raises `NoSuchChunk` where `last` is none that was sent, `ChunksGone` where one is not recorded.
    """
    field, most = "last_transport_chunk_index", runner.transport_index - 1
    if not -1 <= last <= most:
        raise NoSuchChunk(f"{field} is {last}: the last one sent is {most}", field=field)
    until = tape.complete_from
    if last + 1 >= until:
        return []
    history = await services.archive.recent(protocol.world)
    if history.base and last + 1 < history.base_transport_index:
        history = await services.archive.whole(protocol.world)
    epoch = history.protocol.epoch
    links = [link for link in history.line if link.begun.tick.epoch == epoch]
    if history.flight is not None:
        links.append(history.flight)
    links = [link for link in links if last < link.begun.transport_index < until]
    found = await _recorded(services, protocol.world, links)
    if len(found) < len(links):
        message = f"chunks from {last + 1} on are not kept any more: resume with {field} {most} to go on"
        raise ChunksGone(message, field=field)
    return [runner.again(link, found[link.begun.tick.chunk_index]) for link in links]


async def _recorded(services: Services, world: str, links: list[Link]) -> dict[int, EncodedChunk]:
    """The media of these chunks of one epoch, as far as they are recorded, by chunk index."""
    if services.recordings is None or not links:
        return {}
    wanted = {(link.begun.tick.epoch, link.begun.tick.chunk_index) for link in links}
    found: dict[int, EncodedChunk] = {}
    async for chunk in services.recordings.chunks(world, min(wanted)):
        if (chunk.epoch, chunk.chunk_index) in wanted:
            found[chunk.chunk_index] = chunk.media
    return found
