"""The demo's page, as a test sees it: what is on the screen, and what a visitor does."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.pattern.marks import KEYS, cell_size, read_number

WIDTH, HEIGHT = 96, 64  # the pattern's picture, in pixels
FPS = 32  # twice the pattern's own, so that chunks come twice as fast
PATIENCE_MS = 60_000
FOCUSED = '.pane[data-focused="true"]'
FIRST, SECOND = ".pane:nth-child(1)", ".pane:nth-child(2)"

# The page's policy allows no evaluated text, so a condition is a function body that polls by itself.
_UNTIL = """async (limit) => {
  const met = () => (%s);
  for (const end = performance.now() + limit; !met(); await new Promise(requestAnimationFrame)) {
    if (performance.now() > end) throw new Error(document.body.innerText);
  }
}"""
_PIXELS = """([selector, width, height]) => {
  const small = document.createElement("canvas");
  Object.assign(small, { width, height });
  const context = small.getContext("2d", { alpha: false });
  context.imageSmoothingQuality = "high";
  context.drawImage(document.querySelector(selector), 0, 0, width, height);
  return btoa(String.fromCharCode(...context.getImageData(0, 0, width, height).data));
}"""


def difference(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Mean absolute difference, in grey levels."""
    return float(np.abs(one.astype(np.int16) - other.astype(np.int16)).mean())


class Demo:
    """One open page.

    `problems` are the page's errors; `requested` the addresses that it asked for; `heard` the messages that
    its sockets received.
    """

    def __init__(self, page: Any, url: str) -> None:
        self.page = page
        self.url = url
        self.problems: list[str] = []
        self.requested: list[str] = []
        self.heard: list[dict[str, Any]] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._logged)
        page.on("websocket", lambda socket: socket.on("framereceived", self._received))
        page.on("request", lambda request: self.requested.append(request.url))

    def _received(self, frame: str | bytes) -> None:
        if isinstance(frame, str):
            self.heard.append(json.loads(frame))

    def chunks(self) -> list[tuple[int, int, int]]:
        """Of each chunk that came: its transport index, its epoch and its place in the world."""
        names = ("transport_chunk_index", "epoch", "generation_chunk_index")
        metas = [told for told in self.heard if told["type"] == "video.chunk_metadata"]
        return [tuple(meta[name] for name in names) for meta in metas]

    def transports(self) -> list[int]:
        """Of each chunk that came, its transport index."""
        return [transport for transport, _, _ in self.chunks()]

    def session_ids(self) -> list[str]:
        """Of each stream that started, its session."""
        return [told["session_id"] for told in self.heard if told["type"] == "video.start"]

    def _logged(self, message: Any) -> None:
        # The browser itself logs a lost connection and a refusal; the page can't help it.
        expected = ("WebSocket connection to", "401 (Unauthorized)", "503 (Service Unavailable)")
        if message.type in ("error", "warning") and not any(text in message.text for text in expected):
            self.problems.append(message.text)

    def open(self, query: str = "", fps: int = FPS) -> None:
        self.page.goto(f"{self.url}?fps={fps}&{query}")
        self.part("veil-action").wait_for()

    def part(self, name: str, pane: str = FOCUSED) -> Any:
        """A part of a pane; by default of the one that has the keys."""
        return self.page.locator(f'{pane} [data-part="{name}"]')

    def act(self) -> None:
        """Press the button that lies over the picture."""
        self.part("veil-action").click()

    def play(self, chunks: int = 1) -> None:
        self.act()
        self.wait_for_chunks(chunks)

    def wait_for_chunks(self, chunks: int) -> None:
        """Until so many chunks were on the screen since the walk began."""
        self.until(f"Number(document.querySelector('{FOCUSED} .screen').dataset.chunks) >= {chunks}")

    def wait_until_playing(self, pane: str = FIRST) -> None:
        """Until nothing lies over the picture any more."""
        self.until(f"document.querySelector('{pane} .veil').dataset.shown === 'false'")

    def wait_for_link(self, state: str) -> None:
        """Until the page shows its connection in this state."""
        self.until(f"document.getElementById('link').dataset.state === '{state}'")

    def change_prompt(self, prompt: str) -> None:
        """Until the new one is in the picture."""
        self.page.locator("#prompt").fill(prompt)
        self.page.locator("#prompt").press("Enter")
        self.wait_for_prompt()

    def wait_for_prompt(self) -> None:
        """Until the one that was sent is in the picture."""
        self.until("document.getElementById('prompt-status').textContent.includes('in the picture')")

    def look_back(self, moment: int) -> None:
        """Move the timeline's slider to the moment with this place."""
        self.until(f"Number(document.getElementById('moment').max) > {moment}")
        self.page.locator("#moment").fill(str(moment))

    def until(self, condition: str) -> None:
        """Wait for a JavaScript expression to be true."""
        self.page.evaluate(_UNTIL % condition, PATIENCE_MS)

    def text(self, identity: str) -> str:
        return str(self.page.locator(f"#{identity}").text_content())

    def picture(self, pane: str = FOCUSED) -> NDArray[np.uint8]:
        """RGB [64, 96, 3]: what the canvas shows, brought back to the size of the video."""
        flat = base64.b64decode(self.page.evaluate(_PIXELS, [f"{pane} canvas", WIDTH, HEIGHT]))
        return np.frombuffer(flat, np.uint8).reshape(HEIGHT, WIDTH, 4)[..., :3]

    def skyline(self, pane: str = FOCUSED) -> NDArray[np.int16]:
        """The part of the picture that only changes when the visitor turns or the prompt does."""
        return self.picture(pane)[22:38].astype(np.int16)

    def number(self, pane: str = FOCUSED) -> int:
        """The chunk number that is drawn in the picture."""
        return read_number(self.picture(pane))

    def lit(self) -> set[str]:
        """The keys that the picture shows as held."""
        picture = self.picture()
        cell = max(1, cell_size(WIDTH) // 2)
        pitch = 5 * cell
        top = HEIGHT - 7 * cell
        found = set()
        for keys, left in zip(KEYS, (cell, WIDTH - 4 * pitch), strict=True):
            for place, key in enumerate(keys):
                box = picture[top : top + 5 * cell, left + place * pitch : left + place * pitch + 3 * cell]
                if box.max() > 150:
                    found.add(key)
        return found

    def wait_for_lit(self, *keys: str) -> None:
        """Until the picture shows exactly these keys as held."""
        self.wait_until(lambda: self.lit() == set(keys), f"{keys} held; {self.lit()} are")

    def wait_until(self, met: Any, wanted: str) -> None:
        """Look at the picture again with each chunk, until `met`."""
        for _ in range(20):
            if met():
                return
            shown = int(self.part("screen").get_attribute("data-chunks") or 0)
            self.wait_for_chunks(shown + 1)
        raise AssertionError(f"wanted {wanted}")

    def held(self) -> set[str]:
        """The keys that the page shows as held."""
        pressed = self.page.locator('.pad button[aria-pressed="true"]')
        return set(pressed.evaluate_all("buttons => buttons.map((button) => button.dataset.action)"))

    def overflow(self) -> int:
        """Pixels by which the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))
