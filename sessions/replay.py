"""Computing a session again from its journal, chunk by chunk, beside the one that was."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace

from engine.api import ChunkReady, EncodedChunk, Engine, EngineError, Reducer
from sessions import facts
from sessions.engine_errors import as_session_error
from sessions.errors import JournalCorrupt, UnknownSession
from sessions.facts import ChunkBegun
from sessions.history import History, read_history, rebuild
from sessions.journal import Journal
from sessions.world import open_request


@dataclass(frozen=True, slots=True)
class ReplayedChunk:
    """One chunk that was shown, as it comes out now."""

    epoch: int
    chunk_index: int
    transport_index: int
    expected: str  # SHA-256 of its RGB frames when it was shown
    media: EncodedChunk

    @property
    def same(self) -> bool:
        """Whether every frame is the same."""
        return self.media.digest == self.expected


class Replay:
    """Of one life: resets, rewinds and a fork's past are followed, and what it showed itself is answered.

    `past` is its history at its opening, `recorded` holds the facts behind that.
    """

    def __init__(self, engine: Engine, past: History, recorded: list[facts.Fact]) -> None:
        self._engine = engine
        self._past = past
        self._facts = recorded
        self._world = past.opened.world

    @property
    def chunks(self) -> int:
        """How many there are."""
        return sum(isinstance(fact, ChunkBegun) for fact in self._facts)

    async def run(self) -> AsyncIterator[ReplayedChunk]:
        """Chunk after chunk; the world is closed behind the last. Raises `SessionError`."""
        try:
            await self._engine.open_world(open_request(self._world, self._past.spec))
            try:
                async for chunk in self._run():
                    yield chunk
            finally:
                await self._engine.close_world(self._world)
        except EngineError as error:
            raise as_session_error(error) from error

    async def _run(self) -> AsyncIterator[ReplayedChunk]:
        history = self._past
        for link in history.line:
            await self._chunk(link.begun)
        for fact in self._facts:
            history.follow(fact)
            match fact:
                case ChunkBegun():
                    yield await self._chunk(fact)
                case facts.SessionReset():
                    await self._engine.reset_world(self._world)
                case facts.SessionRewound():
                    await self._engine.reset_world(self._world)
                    for link in history.line:
                        await self._chunk(link.begun)

    async def _chunk(self, begun: ChunkBegun) -> ReplayedChunk:
        tick, media = replace(begun.tick, world=self._world), None
        async for answer in self._engine.run_chunk(tick):
            if isinstance(answer, ChunkReady):
                media = answer.media
        assert media is not None, "an engine is ready before it commits"
        return ReplayedChunk(tick.epoch, tick.chunk_index, begun.transport_index, begun.frames_digest, media)


async def replay_of(
    engine: Engine, journal: Journal, reducers: Mapping[str, Reducer], session_id: str
) -> Replay:
    """The newest life of a session, to be computed again. Raises `UnknownSession`, `JournalError`."""
    life = await journal.latest(session_id)
    if life is None:
        raise UnknownSession(session_id)
    recorded = [record.fact for record in await journal.read(life.world)]
    if not recorded or not isinstance(recorded[0], facts.SessionOpened):
        raise JournalCorrupt("a session's life begins with its opening")
    origin = recorded[0].origin
    ancestor = None
    if origin is not None:
        ancestor = await read_history(journal, origin.world, reducers, until=(origin.epoch, origin.chunks))
    return Replay(engine, rebuild(recorded[:1], reducers, ancestor=ancestor), recorded[1:])
