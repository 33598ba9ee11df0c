"""A host over vLLM-Omni, real or replayed, and what is noted of the calls between them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

import torch

from engine.api import Control, OpenWorld
from engine.camera.commands import ACTIONS, TRACK
from engine.media.image import decode_image
from engine.omni.deployment import Deployment
from engine.omni.host import OmniHost
from engine.omni.installed import InstalledOmni, Published
from engine.omni.service import Echo, OmniTick, Opening
from engine.omni.world import OmniWorld
from engine.worker.host import HostLost
from tests.engine.omni.recording import Notes, Recording, plain, told
from tests.engine.omni.small_lingbot import HEIGHT, WIDTH

FRAMES: Final = (("w",), (), ("l",))
TIMEOUT_S: Final = 20.0


class Backstage(Protocol):
    """What stands behind the client: vLLM-Omni itself, or its recorded answers."""

    published: Published

    def start(self, folder: Path, deployed: dict[str, Any]) -> Any:
        """A client of the checkpoint `folder`, deployed so; called on the loop's thread."""

    def pause(self, seconds: float) -> None:
        """Let what was begun there go on."""

    def freeze(self) -> None:
        """Stop its worker process."""

    def thaw(self) -> None:
        """Let it go on, and do what it was asked for meanwhile."""

    def kill(self) -> None:
        """End its worker process, and wait until that is noticed."""


@dataclass(frozen=True, slots=True)
class Start:
    """What is played after one start, with our own deployment but for what `change` does to it; `dtype`: in
    another precision than its own.
    """

    cases: tuple[Callable[[Run], None], ...]
    change: Callable[[dict[str, Any]], None] = lambda _: None
    dtype: str | None = None


class Run:
    """Plays the cases of a start. `cases` is what was noted: each with its calls and what came of it."""

    def __init__(self, folder: Path, backstage: Backstage, start: Start, notes: Notes) -> None:
        self.folder = folder
        self.backstage = backstage
        self.notes = notes
        self.cases: list[dict[str, Any]] = []
        self.deployed: dict[str, Any] = {}
        self._start = start
        self.host = OmniHost(folder, torch.device("cpu"), 16, None, TIMEOUT_S, self._connect)

    def play(self) -> None:
        """A start that is refused is followed by nothing."""
        if not self.case("start", self._load):
            return
        try:
            for case in self._start.cases:
                case(self)
        finally:
            self.host.stop()

    def _load(self) -> None:
        self.host.load()

    def _connect(self, deployment: Deployment, timeout_s: float) -> InstalledOmni:
        deployed = deployment.as_json()
        if self._start.dtype is not None:
            deployed["dtype"] = self._start.dtype
        self._start.change(deployed)
        self.deployed = json.loads(json.dumps(deployed))
        self.loop = asyncio.get_running_loop()
        self.client = Recording(self.backstage.start(self.folder, self.deployed), self.notes)
        self.omni = InstalledOmni(self.client, self.backstage.published, timeout_s)
        return self.omni

    def aside(self, did: Callable[..., Any], *given: Any) -> None:
        """Do what the next case needs before it, or the last one behind it."""
        self.case("", did, *given)

    def case(self, name: str, did: Callable[..., Any], *given: Any, **named: Any) -> bool:
        """Do it and note what came of it; whether it was done."""
        begin, came = len(self.notes.calls), {}
        self.notes.case = name
        try:
            came["gave"] = plain(did(*given, **named))
        except (Exception, HostLost) as error:
            came["raised"] = told(error)
            if error.__cause__ is not None:
                came["raised"]["cause"] = told(error.__cause__)
        self.cases.append({"case": name, "calls": self.notes.calls[begin:], **came})
        return "gave" in came

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """A coroutine on the loop's thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def open(self, world: str) -> OmniWorld:
        return self.host.open(OpenWorld(world, "a meadow", WIDTH, HEIGHT, 16, 3, scene="meadow"))

    def rpc(self, method: str, stages: list[int]) -> Any:
        """What the client itself answers, without the lifecycle in front."""
        work = self.client.collective_rpc(method, timeout=TIMEOUT_S, args=("nobody",), stage_ids=stages)
        return self.run(work)

    def direct(self, index: int, control: Control, session: str = "d", **opening: Any) -> Any:
        """A tick that no world of ours would send; how large its latents are."""
        return self.shape(self.tick(index, control, session), **opening)

    def shape(self, tick: OmniTick, **opening: Any) -> Any:
        return list(self.run(self.omni.run_tick(self.opening(**opening), tick)).latents.shape)

    def tick(self, index: int, control: Control | None = None, session: str = "d") -> OmniTick:
        echo = Echo(session, f"{session}-{index}", index, (index,))
        return OmniTick(echo, "a meadow", control or keys())

    def opening(self, **changed: Any) -> Opening:
        picture = decode_image((self.folder / "meadow.png").read_bytes(), WIDTH, HEIGHT)
        return replace(Opening(picture, 3, 5.0, 4), **changed)


def keys(frames: Any = FRAMES, **changed: Any) -> Control:
    return replace(Control(TRACK, ACTIONS, {"mode": "frames", "frames": frames}), **changed)
