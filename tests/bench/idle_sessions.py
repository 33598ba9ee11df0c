"""What 2,000 idle sessions cost the server in memory: made by REST and left, or connected by quiet sockets.

PSS from `/proc`, of the server and of its worker. The pattern has room for 256 worlds: the rest are put away.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from app.client import Client
from tests.bench._server import served_process

SESSIONS = 2000
TARGET_MIB = 200.0
MIB = 2**20


def pss(pid: int) -> int:
    """Bytes of a process, shared pages by their share."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no PSS of {pid}")


def memory(pid: int) -> dict[str, int]:
    """PSS of the server, and of the processes that it started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {"server": pss(pid), "worker": sum(pss(int(child)) for child in children)}


async def made(client: Client, pid: int) -> dict[str, int]:
    """Make them by REST, in fours at a time."""
    for _ in range(SESSIONS // 4):
        await asyncio.gather(*(client.create(prompt="a meadow", mode="stepped") for _ in range(4)))
    return memory(pid)


async def connected(client: Client, pid: int) -> dict[str, int]:
    """Connect a socket for each, which starts a stepped session and says no more."""
    async with AsyncExitStack() as stack:
        for _ in range(SESSIONS):
            await stack.enter_async_context(client.stream(prompt="a meadow", mode="stepped"))
        return memory(pid)


async def measure(url: str, pid: int, way: str) -> tuple[dict[str, int], dict[str, int]]:
    """Before and after."""
    async with Client(url) as client:
        async with client.stream(prompt="a meadow", num_frames=9) as first:
            await first.done()
        before = memory(pid)
        after = await (made if way == "made" else connected)(client, pid)
    return before, after


def main() -> None:
    """Print one JSON line for each way."""
    for way in ("made", "connected"):
        settings = {"WORLDLINE_MAX_SESSIONS": str(SESSIONS + 100), "WORLDLINE_STALL_TIMEOUT_S": "600"}
        with served_process("pattern", settings) as (url, pid):
            before, after = asyncio.run(measure(url, pid, way))
        figures = {
            "bench": "idle_sessions",
            "way": way,
            "sessions": SESSIONS,
            "server_before_mib": round(before["server"] / MIB, 1),
            "server_mib": round(after["server"] / MIB, 1),
            "worker_mib": round(after["worker"] / MIB, 1),
            "kib_per_session": round((after["server"] - before["server"]) / SESSIONS / 1024, 1),
            "target_server_mib": TARGET_MIB,
            "ok": after["server"] / MIB <= TARGET_MIB,
        }
        sys.stdout.write(json.dumps(figures) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
