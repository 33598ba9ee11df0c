"""Which names a server without API keys answers to.

On the loopback it trusts whoever reaches it. A page of another site can reach it too, once it has pointed a
name of its own at 127.0.0.1 (DNS rebinding); but its visitor's browser tells that name, in `Host`.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from app.refusals import HostRefused, shortened
from app.settings import Settings


def is_loopback(host: str) -> bool:
    """Whether a name or address can be reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")  # RFC 6761


def check_host(settings: Settings, host: str | None) -> None:
    """`host` is a request's, as it came. Raises `HostRefused`. A server that listens on another address than
    the loopback was put where others reach it, under whatever name.
    """
    if host is None or not is_loopback(settings.host):
        return
    name = _name(host)
    if not is_loopback(name) and name not in settings.allowed_hosts and "*" not in settings.allowed_hosts:
        told = "is no name of this server, which asks for no API key: set WORLDLINE_ALLOWED_HOSTS"
        raise HostRefused(f"{shortened(host)} {told}")


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
