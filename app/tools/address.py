"""Which addresses a caller or a model may reach: rules over addresses and URLs, and no I/O.

Whatever a host is called, only the address it resolves to counts: odd spellings (`2130706434`,
`0x7f.2`) and names that change their answer are judged by the same rule, right before connecting
(field case F103). An IPv6 address that carries an IPv4 one is judged by what it carries.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Final

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterable

Address = IPv4Address | IPv6Address

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_V4_COMPATIBLE: Final = IPv6Network("::/96")
_NAT64: Final = IPv6Network("64:ff9b::/96")
# Not for us, though Python calls them global: protocol assignments, the 6to4 relay, documentation.
_RESERVED_V4: Final = (IPv4Network("192.0.0.0/24"), IPv4Network("192.88.99.0/24"))
_RESERVED_V6: Final = (IPv6Network("2001::/23"), IPv6Network("3fff::/20"))


class AddressRefused(Exception):
    """Nobody may be led there; the message says why, without what a name resolved to."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a URL leads. `host` is ASCII, without brackets; `is_exempt` by the allow list."""

    url: httpx.URL
    host: str
    port: int
    is_exempt: bool

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port."""
        return self.url.scheme, self.host, self.port


@dataclass(frozen=True, slots=True)
class AllowList:
    """Hosts that may be private: `host[:port]` as written in the URL; without a port, all."""

    entries: frozenset[str]

    @classmethod
    def of(cls, entries: Iterable[str]) -> AllowList:
        """The list of these entries, whose letters may be of either case."""
        return cls(frozenset(entry.lower() for entry in entries))

    def covers(self, host: str, port: int) -> bool:
        """Whether a host, spelled as in the URL, is exempt on that port."""
        written = f"[{host}]" if ":" in host else host
        return not self.entries.isdisjoint({written, f"{written}:{port}"})


def target(url: str | httpx.URL, allowed: AllowList) -> Target:
    """Where `url` leads. Raises AddressRefused for what is no plain http or https URL."""
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError) as error:
        raise AddressRefused("expected a sound URL") from error
    if (standard := _DEFAULT_PORTS.get(parsed.scheme)) is None:
        raise AddressRefused(f"expected an http or https URL, found {parsed.scheme!r}")
    if parsed.userinfo:
        raise AddressRefused("a URL must not hold a user name or a password")
    host = parsed.raw_host.decode("ascii").lower()
    port = standard if parsed.port is None else parsed.port
    if not host or not 0 < port < 65536:
        raise AddressRefused("expected a URL with a host and a port from 1 to 65535")
    return Target(parsed, host, port, is_exempt=allowed.covers(host, port))


def checked(host: str, resolved: Iterable[str]) -> list[Address]:
    """The addresses a name resolved to. Raises AddressRefused if any is not public, or none is."""
    addresses = [ip_address(text) for text in resolved]
    if not addresses:
        raise AddressRefused(f"host {host!r} has no address")
    if not all(is_public(address) for address in addresses):
        raise AddressRefused(f"host {host!r} is, or resolves to, an address that is not public")
    return addresses


def is_public(address: Address) -> bool:
    """Whether anybody on the internet may be at the address, as opposed to this network."""
    carried = _carried(address)
    if isinstance(carried, IPv4Address):
        reserved = any(carried in network for network in _RESERVED_V4)
        return carried.is_global and not carried.is_multicast and not reserved
    reserved = any(carried in network for network in _RESERVED_V6)
    return carried.is_global and carried in _GLOBAL_UNICAST and not reserved


def _carried(address: Address) -> Address:
    """The IPv4 address within a mapped, compatible, 6to4 or NAT64 one; else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if (carried := address.ipv4_mapped or address.sixtofour) is not None:
        return carried
    if address in _V4_COMPATIBLE or address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
