"""`worldline serve`."""

from __future__ import annotations

import asyncio
import gc
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop
from pydantic import ValidationError
from pydantic_settings import SettingsError

from app.bootstrap import build_engine, build_reducers, build_stores
from app.commands.settings import option
from app.data_lock import DataInUse, DataLock
from app.edge import Edge
from app.hosts import is_loopback
from app.key_file import KeyFileRefused, read_keys
from app.logs import configure_logging
from app.main import create_app
from app.serving import Server, address
from app.settings import Settings
from app.traces import TracesUnavailable, require_traces


class EngineChoice(StrEnum):
    """What makes the pictures."""

    NATIVE = "native"
    PATTERN = "pattern"
    VLLM_OMNI = "vllm-omni"


class LogLevelChoice(StrEnum):
    """The least severe log lines that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormatChoice(StrEnum):
    """How log lines are written."""

    TEXT = "text"
    JSON = "json"


def serve(
    host: Annotated[str, option("host")] = "127.0.0.1",
    port: Annotated[int, option("port")] = 8000,
    data: Annotated[Path, option("data")] = Path("data"),
    engine: Annotated[EngineChoice, option("engine")] = EngineChoice.NATIVE,
    model: Annotated[str, option("model")] = "tiny",
    served_model_name: Annotated[str | None, option("served_model_name")] = None,
    threads: Annotated[int | None, option("threads")] = None,
    compile: Annotated[bool, option("compile")] = False,
    tf32: Annotated[bool, option("tf32")] = False,
    omni_worlds: Annotated[int, option("omni_worlds")] = 1,
    omni_deploy: Annotated[Path | None, option("omni_deploy")] = None,
    log_level: Annotated[LogLevelChoice, option("log_level")] = LogLevelChoice.INFO,
    log_format: Annotated[LogFormatChoice, option("log_format")] = LogFormatChoice.TEXT,
    allow_unauthenticated: Annotated[bool, option("allow_unauthenticated")] = False,
) -> None:
    """Serve sessions of generated worlds, and the demo that plays them.

    Prints the demo's address when the model is ready. Further settings are environment variables
    (WORLDLINE_API_KEYS, WORLDLINE_ALLOWED_ORIGINS, limits and timeouts): `worldline settings` lists them.
    """
    given: dict[str, Any] = {
        "host": host,
        "port": port,
        "data": data,
        "engine": engine.value,
        "model": model,
        "served_model_name": served_model_name,
        "threads": threads,
        "compile": compile,
        "tf32": tf32,
        "omni_worlds": omni_worlds,
        "omni_deploy": omni_deploy,
        "log_level": log_level.value,
        "log_format": log_format.value,
        "allow_unauthenticated": allow_unauthenticated,
    }
    try:
        settings = Settings(**given)
    except (ValidationError, SettingsError) as error:
        raise typer.BadParameter(_told(error)) from None
    _require_protection(settings)
    _require_key_file(settings)
    _require_traces(settings)
    configure_logging(settings.log_level, settings.log_format)
    lock = DataLock(settings.data)
    try:
        lock.acquire()
    except DataInUse as error:
        typer.echo(f"worldline: {error}", err=True)
        raise typer.Exit(1) from None
    except OSError as error:
        told = f"can't write to {settings.data}: {error.strerror}; choose another directory with --data"
        typer.echo(f"worldline: {told}", err=True)
        raise typer.Exit(1) from None
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            status = runner.run(run(settings))
    finally:
        lock.release()
    raise typer.Exit(status)


async def run(settings: Settings) -> int:
    """Serve until told to stop. Returns the exit status: 1 without a model, or where the address is taken."""
    app = create_app(settings, build_engine(settings), build_stores(settings), build_reducers())
    edge: Edge = app.state.edge
    server = Server(app, settings, edge.drain, edge.keys.reload)
    serving = asyncio.create_task(server.serve())
    ready = asyncio.create_task(edge.ready.wait())
    await asyncio.wait({serving, ready}, return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        if edge.failure:
            server.should_exit = True  # the log has said why
        elif server.started:
            gc.collect()
            gc.freeze()  # what was loaded stays: the collector need not walk it while somebody plays
            typer.echo(f"Worldline is ready: open {address(server)}/")
    ready.cancel()
    await serving
    if not server.started:
        where = f"{settings.host} port {settings.port}"
        typer.echo(f"worldline: can't listen on {where}: choose another with --host or --port", err=True)
    return 1 if edge.failure or not server.started else 0


def _told(error: ValidationError | SettingsError) -> str:
    """Which setting, what came and what is allowed."""
    if isinstance(error, SettingsError):  # "error parsing value for field NAME from source ..."
        name = str(error).partition('"')[2].partition('"')[0]
        return f'WORLDLINE_{name.upper()}: expected JSON, e.g. \'["a", "b"]\''
    details = error.errors(include_url=False)
    return "; ".join(
        f"{'.'.join(map(str, detail['loc']))}: {detail['msg'][:1].lower()}{detail['msg'][1:]}, "
        f"got {'a secret' if detail['loc'][0] == 'api_keys' else repr(detail['input'])}"
        for detail in details
    )


def _require_protection(settings: Settings) -> None:
    if (
        settings.api_keys
        or settings.api_keys_file
        or settings.allow_unauthenticated
        or is_loopback(settings.host)
    ):
        return
    raise typer.BadParameter(
        f"{settings.host} can be reached from other machines, and no API key is set: set WORLDLINE_API_KEYS, "
        "e.g. '[\"a long random key\"]', or ask for --allow-unauthenticated",
        param_hint="--host",
    )


def _require_key_file(settings: Settings) -> None:
    if settings.api_keys_file is None:
        return
    try:
        read_keys(settings.api_keys_file)
    except KeyFileRefused as refused:
        told = f"{refused}; `worldline keys add NAME --file {settings.api_keys_file}` makes one"
        raise typer.BadParameter(told, param_hint="WORLDLINE_API_KEYS_FILE") from None


def _require_traces(settings: Settings) -> None:
    if settings.trace_endpoint is None:
        return
    try:
        require_traces()
    except TracesUnavailable as error:
        raise typer.BadParameter(str(error), param_hint="WORLDLINE_TRACE_ENDPOINT") from None
