"""What an operator may set: read once at the start, from options and `WORLDLINE_...`, then frozen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]
EngineKind = Literal["native", "pattern", "vllm-omni"]


class Settings(BaseSettings):
    """Every field is also an environment variable: `WORLDLINE_` and its name, e.g. `WORLDLINE_PORT=8080`."""

    model_config = SettingsConfigDict(env_prefix="WORLDLINE_", frozen=True, extra="forbid")

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    data: Path = Field(Path("data"), description="Directory of journal, snapshots and recordings.")
    journal_url: SecretStr | None = Field(
        None,
        description="The journal's database, e.g. `postgresql://user:password@host/name` (needs the extra "
        "`postgres`); by default an SQLite file in the data directory.",
    )
    engine: EngineKind = Field(
        "native",
        description="`native` runs the model, `vllm-omni` has vLLM-Omni run it, `pattern` draws a test one.",
    )
    model: str = Field(
        "tiny", description="`tiny`, a checkpoint folder in diffusers layout, or a hub's OWNER/NAME@COMMIT."
    )
    served_model_name: str | None = Field(
        None, description="Name that clients use; by default the model's own."
    )
    model_aliases: tuple[str, ...] = Field((), description="Further names that clients may use.")
    threads: int | None = Field(
        None, ge=1, description="Compute threads of the worker; by default all cores but one, at most four."
    )
    compile: bool = Field(
        False,
        description="Compile the transformer when it is loaded; it is used where it equals the eager one.",
    )
    tf32: bool = Field(
        False, description="Let a GPU round the inputs of fp32 products to 10 bits: faster, less exact."
    )
    omni_worlds: int = Field(
        1,
        ge=1,
        le=2,
        description="Sessions on vLLM-Omni: beyond two it drops one in silence.",
    )
    omni_deploy: Path | None = Field(
        None, description="vLLM-Omni's deployment file; by default one is written for one GPU."
    )
    log_level: LogLevel = Field("info", description="The least severe log lines that are written.")
    log_format: LogFormat = Field(
        "text", description="`text` for people; `json` writes an object a line, with session and request ids."
    )
    trace_endpoint: str | None = Field(
        None,
        pattern=r"^https?://",
        description="OTLP/HTTP address that takes a trace of every chunk; needs the extra `trace`.",
    )

    api_keys: tuple[Annotated[SecretStr, Field(min_length=1)], ...] = Field(
        (), description="Keys, one of which every client must show. Without any, only loopback is served."
    )
    api_keys_file: Path | None = Field(
        None, description="File of further keys, made by `worldline keys`; it is read again when it changes."
    )
    allow_unauthenticated: bool = Field(
        False, description="Serve on an address other than loopback without any API key."
    )
    allowed_origins: tuple[str, ...] = Field(
        (), description="Origins besides the server's own whose pages may open a socket or call the API."
    )
    allowed_hosts: tuple[str, ...] = Field(
        (),
        description="Names besides localhost by which a server on the loopback may be reached without an API "
        "key, e.g. a proxy's; `*`: any.",
    )

    start_timeout_s: float = Field(10, gt=0, description="Seconds within which `session.start` must come.")
    start_max_bytes: int = Field(8 * 2**20, ge=1024, description="Longest `session.start`, in bytes.")
    interaction_max_chars: int = Field(
        131_072, ge=256, description="Longest `session.interaction`, in characters."
    )
    prompt_max_chars: int = Field(4096, ge=1, description="Longest prompt, in characters.")
    image_max_side: int = Field(
        4096, ge=16, description="Largest width and height of an uploaded image, in pixels."
    )
    image_hosts: tuple[str, ...] = Field(
        (),
        description="Hosts whose http(s) images may be first frames, e.g. `images.example.org`, "
        "`*.example.org`, `example.org:8443`; without any, none is fetched.",
    )
    image_fetch_max_bytes: int = Field(
        8 * 2**20, ge=1024, description="Largest image that is fetched, in bytes."
    )
    image_fetch_timeout_s: float = Field(
        10, gt=0, description="Seconds within which an image has to be fetched."
    )
    stall_timeout_s: float = Field(
        60, gt=0, description="Seconds without progress or ping after which a socket ends."
    )
    ping_interval_s: float = Field(
        20, gt=0, description="Seconds between the protocol pings that the server sends."
    )
    ping_timeout_s: float = Field(
        60, gt=0, description="Seconds that a peer may take to answer a protocol ping."
    )
    last_word_timeout_s: float = Field(
        5, gt=0, description="Seconds that a peer that reads nothing may hold up the end of its socket."
    )
    close_timeout_s: float = Field(
        30, gt=0, description="Seconds that a reset or close may take in the worker."
    )
    outbox_max_bytes: int = Field(8 * 2**20, ge=2**16, description="Bytes of a session's undelivered output.")
    resume_grace_s: float = Field(
        30, ge=0, description="Seconds that a client that lost its connection has to come back."
    )
    after_grace: Literal["suspend", "close"] = Field(
        "suspend", description="What becomes of a session whose client did not come back."
    )
    replay_max_bytes: int = Field(
        8 * 2**20, ge=0, description="Bytes of a session's last chunks, kept for a client that comes back."
    )
    snapshot_every: int = Field(16, ge=1, description="Chunks from one snapshot of a world to the next.")
    pending_events: int = Field(32, ge=1, description="Events of a session that may wait for the next chunk.")
    max_sessions: int | None = Field(
        None, ge=1, description="Sessions in all; by default what the model has room for."
    )
    waiting_max: int = Field(64, ge=0, description="Clients that wait in line for room; 0: nobody waits.")
    waiting_timeout_s: float = Field(300, gt=0, description="Seconds that a client may wait in line.")
    sessions_per_key: int | None = Field(
        None, ge=1, description="Sessions of one key at once, suspended ones not counted."
    )
    events_per_second_per_key: float | None = Field(
        None, gt=0, description="Events per second of one key, over all its sessions."
    )
    total_sessions_per_key: int | None = Field(
        None, ge=0, description="Sessions that one key may ever make, forks included."
    )
    total_events_per_key: int | None = Field(None, ge=0, description="Events that one key may ever submit.")
    unacked_chunks: int = Field(
        2, ge=1, description="Chunks that a client which sends `session.ack` may be behind before play waits."
    )
    idle_timeout_s: float = Field(
        900, ge=0, description="Seconds after which a session that nobody uses is suspended; 0: never."
    )
    session_lifetime_s: float = Field(
        0, ge=0, description="Seconds after which a session is closed, whatever it does; 0: never."
    )
    snapshots_max_bytes: int = Field(
        2 * 2**30, ge=0, description="Disk space for snapshots of worlds; the oldest go first. 0 keeps none."
    )
    recordings_max_bytes: int = Field(
        4 * 2**30, ge=0, description="Disk space for what sessions showed; the oldest go first. 0 keeps none."
    )
    share_first_chunks_bytes: int = Field(
        0,
        ge=0,
        description="Memory for first chunks that sessions with the same inputs share; 0 shares none.",
    )
