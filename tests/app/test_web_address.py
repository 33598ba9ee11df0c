"""Which addresses of pictures an operator's list lets through."""

import pytest

from app.public_addresses import is_public
from app.refusals import InvalidField
from app.web_address import is_web_address, web_address

LIST = ("images.example.org", "*.example.com", "files.example.net:8443", "[2606:4700::1]", "8.8.8.8")


@pytest.mark.parametrize(
    ("url", "authority", "port", "target"),
    [
        ("https://images.example.org/a.png", "images.example.org", 443, "/a.png"),
        ("http://images.example.org", "images.example.org", 80, "/"),
        ("HTTPS://Images.Example.Org/A.png?x=1#top", "images.example.org", 443, "/A.png?x=1"),
        ("https://images.example.org:443/", "images.example.org", 443, "/"),
        ("https://a.b.example.com/x", "a.b.example.com", 443, "/x"),
        ("https://files.example.net:8443/x", "files.example.net:8443", 8443, "/x"),
        ("https://[2606:4700::1]/x", "[2606:4700::1]", 443, "/x"),
        ("http://8.8.8.8/x", "8.8.8.8", 80, "/x"),
    ],
)
def test_an_address_on_the_list_is_taken(url: str, authority: str, port: int, target: str) -> None:
    address = web_address(url, "image", LIST)
    assert (address.authority, address.port, address.target) == (authority, port, target)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://other.example.org/a.png", "images.example.org"),
        ("https://images.example.org.evil.example/a", "allowed host"),
        ("https://evilexample.com/a", "allowed host"),
        ("https://example.com/a", "allowed host"),
        ("https://images.example.org:8080/a", "images.example.org:8080"),
        ("http://images.example.org:22/a", "images.example.org:22"),
        ("http://images.example.org:443/a", "images.example.org:443"),
        ("https://files.example.net/a", "files.example.net"),
        ("https://images.example.org./a", "allowed host"),
        ("https://images.example.org@evil.example/a", "user"),
        ("https://user:word@images.example.org/a", "user"),
        ("https://images.example.org\\@evil.example/a", "backslash"),
        ("https://evil.example\\images.example.org/a", "host"),
        ("https://images.example.org/a\r\nHost: x", "ASCII"),
        ("https://images.example.org/ a", "ASCII"),
        ("https://imàges.example.org/a", "ASCII"),
        ("https://images.example.org:99999/a", "web address"),
        ("https://images.example.org:0/a", "host"),
        ("https://:443/a", "host"),
        ("https://[::1/a", "web address"),
        ("https://images%2eexample.org/a", "host"),
        ("https://127.0.0.1/a", "allowed host"),
        ("https://images.example.org/" + "a" * 2048, "2048"),
    ],
)
def test_any_other_address_is_refused_by_name(url: str, told: str) -> None:
    with pytest.raises(InvalidField, match=told.replace("[", r"\[")) as refused:
        web_address(url, "image_reference.image_url", LIST)
    assert refused.value.field == "image_reference.image_url"
    assert "word@" not in str(refused.value)


def test_without_a_list_nothing_is_fetched() -> None:
    with pytest.raises(InvalidField, match="web addresses are not fetched"):
        web_address("https://images.example.org/a.png", "image", ())


def test_other_schemes_are_no_web_addresses() -> None:
    for url in ("data:image/png;base64,AAAA", "file:///etc/passwd", "ftp://x/y", "//x/y", "", "gopher://x"):
        assert not is_web_address(url)


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.215.14", "2606:4700:4700::1111", "2a00:1450::1"])
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",  # metadata of clouds
        "100.64.0.1",
        "100.100.100.200",  # metadata of a cloud in shared space
        "192.0.0.192",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:8.8.8.8",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::a00:1",
        "2002:7f00:1::1",
        "2001:0:7f00:1::1",
        "2001:db8::1",
        "fc00::1",
        "fd00:ec2::254",  # metadata over v6
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
        "100::1",
        "not an address",
        "",
    ],
)
def test_every_other_address_is_not(address: str) -> None:
    assert not is_public(address)
