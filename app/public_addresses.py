"""Which addresses belong to the public internet, whatever dress they come in."""

from __future__ import annotations

import ipaddress

_UNICAST = ipaddress.IPv6Network("2000::/3")  # all that is assigned to the public internet (RFC 4291, 2.4)
_TUNNELS = (ipaddress.IPv6Network("2002::/16"), ipaddress.IPv6Network("2001::/32"))  # 6to4, Teredo
_PROTOCOLS = ipaddress.IPv4Network("192.0.0.0/24")  # RFC 6890; a cloud's metadata lives there


def is_public(address: str) -> bool:
    """Whether `address` (v4 or v6, as text) can be reached by anybody.

    Not: loopback, private, link-local (and with it the metadata service of clouds), shared, reserved,
    documentation, multicast, unspecified; nor IPv6 that carries an IPv4 address inside, mapped or tunnelled.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if parsed.is_multicast or parsed.is_reserved or not parsed.is_global:
        return False
    if isinstance(parsed, ipaddress.IPv4Address):
        return parsed not in _PROTOCOLS
    return parsed in _UNICAST and not any(parsed in network for network in _TUNNELS)
