"""The address of a picture on the web, and the list of hosts that an operator allows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from app.refusals import InvalidField, shortened

DEFAULT_PORTS = {"http": 80, "https": 443}
LONGEST = 2048  # characters

_PLAIN = re.compile(r"[!-~]+", re.ASCII)  # visible ASCII: no spaces, no control characters
_HOST = re.compile(r"[a-z0-9.:_-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class WebAddress:
    """Checked against the list, not yet resolved. `target` is its path and query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """The `Host` of a request: with the port where it is not the scheme's own."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == DEFAULT_PORTS[self.scheme] else f"{name}:{self.port}"


def is_web_address(url: str) -> bool:
    """Whether `url` begins like one, rather than like a data URL."""
    return url[:8].lower().startswith(("http://", "https://"))


def web_address(url: str, field: str, allowed: Iterable[str]) -> WebAddress:
    """`url`, of one of the `allowed` hosts. Raises `InvalidField` for `field`.

    An entry of the list is a name (`images.example.org`), all names under one (`*.example.org`), and either
    with a port (`images.example.org:8443`); without one, only the scheme's own port is allowed.
    """
    entries = tuple(allowed)
    if not entries:
        raise InvalidField(field, "must be a data URL: web addresses are not fetched here")
    if len(url) > LONGEST or _PLAIN.fullmatch(url) is None:
        raise InvalidField(
            field, f"a web address has at most {LONGEST} characters of plain ASCII; got {shortened(url)}"
        )
    address = _parsed(url, field)
    if not any(_matches(entry, address) for entry in entries):
        listed = ", ".join(entries)
        raise InvalidField(
            field, f"must be a data URL, or on an allowed host ({listed}); got {shortened(address.authority)}"
        )
    return address


def _parsed(url: str, field: str) -> WebAddress:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidField(field, f"must be a web address; got {shortened(url)}") from None
    if not host or _HOST.fullmatch(host) is None or port == 0:
        raise InvalidField(field, f"must be a web address with a host; got {shortened(url)}")
    if "@" in parts.netloc or "\\" in url:
        raise InvalidField(field, "must be a web address without a user, a password or a backslash")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return WebAddress(parts.scheme, host, port or DEFAULT_PORTS[parts.scheme], target)


def _matches(entry: str, address: WebAddress) -> bool:
    name, colon, port = entry.lower().rpartition(":")
    if not colon or not port.isdecimal():
        name, port = entry.lower(), str(DEFAULT_PORTS[address.scheme])
    if int(port) != address.port:
        return False
    if name.startswith("*."):
        return address.host.endswith(name[1:])
    return address.host == name.strip("[]")
