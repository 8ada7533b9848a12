"""Listening sockets, whose options every connection inherits.

A small send buffer bounds what a client that does not read can hold, and the user timeout frees a
connection whose peer is gone while something is being sent to it.
"""

from __future__ import annotations

import errno
import socket
from contextlib import suppress
from typing import Final

SEND_BUFFER_BYTES: Final = 128 * 1024
USER_TIMEOUT_MS: Final = 75_000


class PortTaken(Exception):
    """The address cannot be listened on."""


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens, so that the port is nobody else's from now on. Raises PortTaken.

    Two that are only bound share a port until one of them listens. Who connects before requests
    are taken waits for them.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
        listener.bind((host, port))
        listener.listen()
    except OSError as error:
        listener.close()
        way_out = "; --port takes another one" if error.errno == errno.EADDRINUSE else ""
        reason = error.strerror or error
        raise PortTaken(f"cannot listen on {host}:{port}: {reason}{way_out}") from error
    return listener


def base_address(host: str, port: int) -> str:
    """The address as a client on this machine writes it."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def free_port(host: str, wanted: int) -> int:
    """The wanted port if nobody listens there, else one that is free just now."""
    for port in (wanted, 0):
        with suppress(PortTaken), listening_socket(host, port) as listener:
            found: int = listener.getsockname()[1]
            return found
    raise PortTaken(f"no port of {host} is free")
