"""`worldline replay`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from app.bootstrap import build_engine, build_journal, build_reducers
from app.commands.serve import EngineChoice
from app.commands.sessions import DataOption
from app.commands.whole_file import NotWritable, require_writable, whole_file
from app.packaging.movie import movie
from app.settings import Settings
from engine.api import EncodedChunk, EngineError
from sessions.errors import SessionError
from sessions.replay import ReplayedChunk, replay_of


def replay(
    session: Annotated[str, typer.Argument(help="The session's id; its newest life is taken.")],
    verify: Annotated[
        bool, typer.Option("--verify", help="Exit with status 1 where a frame differs from what was shown.")
    ] = False,
    output: Annotated[Path | None, typer.Option(help="Write the video: a fragmented MP4.")] = None,
    data: DataOption = Path("data"),
    engine: Annotated[
        EngineChoice, typer.Option(help="The engine that it was played with.", envvar="WORLDLINE_ENGINE")
    ] = EngineChoice.NATIVE,
    model: Annotated[
        str, typer.Option(help="The model that it was played with.", envvar="WORLDLINE_MODEL")
    ] = "tiny",
    threads: Annotated[int | None, typer.Option(min=1, help="Compute threads.")] = None,
) -> None:
    """Compute a session again from its journal, and compare every chunk with what was shown.

    Prints one JSON line: how many chunks there are, and which of them differ.

    Example: worldline replay my-walk --verify
    """
    settings = Settings(data=data, engine=engine.value, model=model, threads=threads)
    try:
        require_writable([output])
        differ, count = asyncio.run(_replay(settings, session, output))
    except (SessionError, EngineError, NotWritable, OSError) as error:
        typer.echo(f"worldline replay: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(json.dumps({"session": session, "chunks": count, "differ": differ, "same": not differ}))
    if verify and differ:
        raise typer.Exit(1)


async def _replay(settings: Settings, session_id: str, output: Path | None) -> tuple[list[int], int]:
    """The transport indices that differ, and how many chunks there are."""
    journal, engine = build_journal(settings), build_engine(settings)
    differ: list[int] = []
    try:
        await journal.start()
        await engine.start()
        replayed = await replay_of(engine, journal, build_reducers(), session_id)
        with Progress(console=Console(stderr=True)) as progress:
            task = progress.add_task("Computing", total=replayed.chunks)

            async def media(chunks: AsyncIterator[ReplayedChunk]) -> AsyncIterator[EncodedChunk]:
                async for chunk in chunks:
                    progress.advance(task)
                    if not chunk.same:
                        differ.append(chunk.transport_index)
                    yield chunk.media

            await _write(movie(media(replayed.run())), output)
        return differ, replayed.chunks
    finally:
        await engine.stop()
        await journal.stop()


async def _write(pieces: AsyncIterator[bytes], output: Path | None) -> None:
    if output is None:
        async for _ in pieces:
            pass
        return
    with whole_file(output) as part, part.open("wb") as file:
        async for piece in pieces:
            file.write(piece)
