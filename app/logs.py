"""Log lines: plain text for people, JSON for machines. Never a prompt, an image, a token or a key.

What a line is about, its session and its request, is set once where they become known; tasks that start there
inherit it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime

from app.settings import LogFormat, LogLevel

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
QUIET = ("uvicorn", "httpx")  # a line for every connection or call, worth having only for `debug`
TALKATIVE = ("uvicorn.error", "websockets", "httpcore")  # their `debug` shows what was sent: prompts, tokens

_session_id: ContextVar[str | None] = ContextVar("session_id", default=None)
_request_id: ContextVar[str | None] = ContextVar("request_id", default=None)


def about(*, session_id: str | None = None, request_id: str | None = None) -> None:
    """Name what the lines of this task, and of those that it starts from here on, are about."""
    if session_id is not None:
        _session_id.set(session_id)
    if request_id is not None:
        _request_id.set(request_id)


def subject() -> Mapping[str, str]:
    """The ids that are known here: `session_id`, `request_id`."""
    known = {"session_id": _session_id.get(), "request_id": _request_id.get()}
    return {name: value for name, value in known.items() if value is not None}


class JsonLines(logging.Formatter):
    """One JSON object a line: `time` (UTC, ISO 8601), `level`, `logger`, `message`, ids, and `traceback`."""

    def format(self, record: logging.LogRecord) -> str:
        """The record; line breaks within it are escaped."""
        line: dict[str, str] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **subject(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True)


def configure_logging(level: LogLevel, form: LogFormat = "text") -> None:
    """Log lines go to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else logging.Formatter(TEXT))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel("NOTSET" if level == "debug" else "WARNING")
    for name in TALKATIVE:
        logging.getLogger(name).setLevel("INFO" if level == "debug" else "NOTSET")
