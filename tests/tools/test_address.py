"""Addresses that nobody may be led to, and URLs that are none (field case F103)."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address

import pytest

from app.tools.address import AddressRefused, AllowList, checked, is_public, target

NOBODY = AllowList.of([])

PRIVATE = [
    "127.0.0.1",
    "127.255.255.254",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.100.100.200",
    str(IPv4Address(0)),
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "192.0.0.9",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "203.0.113.7",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%1",
    "fec0::1",
    "fc00::1",
    "fd00::1",
    "fd00:ec2::254",
    "ff02::1",
    "::ffff:127.0.0.2",
    "::ffff:7f00:2",
    "::ffff:10.0.0.1",
    "::ffff:0.0.0.0",
    "::7f00:2",
    "2002:7f00:2::",
    "2002:a00:1::1",
    "64:ff9b::127.0.0.2",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::808:808",
    "2001::1",
    "2001:db8::1",
    "3fff::1",
    "5f00::1",
    "100::1",
]

PUBLIC = [
    "8.8.8.8",
    "172.32.0.1",
    "100.128.0.1",
    "2606:4700::1111",
    "::ffff:8.8.8.8",
    "2002:808:808::1",
    "64:ff9b::8.8.8.8",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_f103_an_address_that_is_not_on_the_internet_is_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_on_the_internet_is_public(address: str) -> None:
    assert is_public(ip_address(address))


def test_one_private_address_among_public_ones_refuses_the_name() -> None:
    assert [str(address) for address in checked("a.test", ["8.8.8.8", "1.1.1.1"])] == [
        "8.8.8.8",
        "1.1.1.1",
    ]
    with pytest.raises(AddressRefused, match="not public") as refused:
        checked("a.test", ["8.8.8.8", "10.1.2.3"])
    assert "10.1.2.3" not in str(refused.value)
    with pytest.raises(AddressRefused, match="no address"):
        checked("a.test", [])


@dataclass(frozen=True)
class Case:
    id: str
    url: str
    says: str


REFUSED = [
    Case("user", "http://user@example.com/", "user name"),
    Case("password", "http://:secret@example.com/", "user name"),
    Case("file", "file:///etc/passwd", "http or https"),
    Case("gopher", "gopher://example.com/", "http or https"),
    Case("relative", "/path", "http or https"),
    Case("no host", "http:///path", "a host"),
    Case("port 0", "http://example.com:0/", "a port"),
    Case("port beyond", "http://example.com:65536/", "a port"),
    Case("octal of four parts", "http://0177.0.0.2/", "sound URL"),
    Case("full-width digits", "http://\uff11\uff12\uff17.0.0.2/", "sound URL"),
    Case("control character", "http://exa\nmple.com/", "sound URL"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_a_url_that_is_not_plain_http_is_refused(case: Case) -> None:
    with pytest.raises(AddressRefused, match=case.says) as refused:
        target(case.url, NOBODY)
    assert "secret" not in str(refused.value)


def test_a_target_has_the_port_of_its_scheme_unless_it_names_one() -> None:
    assert target("http://Example.com/a", NOBODY).origin == ("http", "example.com", 80)
    assert target("https://example.com/a", NOBODY).origin == ("https", "example.com", 443)
    assert target("https://[2606:4700::1]:8/", NOBODY).origin == ("https", "2606:4700::1", 8)


@dataclass(frozen=True)
class Exemption:
    id: str
    entry: str
    url: str
    exempt: bool


EXEMPTIONS = [
    Exemption("host and port", "127.0.0.1:9000", "http://127.0.0.1:9000/", exempt=True),
    Exemption("another port", "127.0.0.1:9000", "http://127.0.0.1:9001/", exempt=False),
    Exemption("without a port all of them", "127.0.0.1", "http://127.0.0.1:9001/", exempt=True),
    Exemption("either case", "LocalHost:80", "http://LOCALhost/", exempt=True),
    Exemption("as written, not as resolved", "127.0.0.1", "http://2130706433/", exempt=False),
    Exemption("v6 with a port", "[::1]:9000", "http://[::1]:9000/", exempt=True),
    Exemption("v6 without a port", "[::1]", "http://[::1]:9000/", exempt=True),
    Exemption("no suffix match", "example.com", "http://evil.example.com/", exempt=False),
]


@pytest.mark.parametrize("case", EXEMPTIONS, ids=lambda case: case.id)
def test_the_allow_list_exempts_hosts_as_written_in_the_url(case: Exemption) -> None:
    assert target(case.url, AllowList.of([case.entry])).is_exempt is case.exempt
