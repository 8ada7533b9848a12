"""Listening sockets: their bounds, and what is said when a port is taken."""

from __future__ import annotations

import socket

import pytest

from app.cli.sockets import PortTaken, base_address, free_port, listening_socket


def test_a_connection_inherits_the_bounds_of_its_listener() -> None:
    with (
        listening_socket("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()) as client,
        listener.accept()[0] as accepted,
    ):
        assert client.getpeername() == accepted.getsockname()
        # Linux keeps twice what was asked for, for its own bookkeeping.
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * 131_072
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 75_000


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTaken) as refused:
            listening_socket("127.0.0.1", port)
    assert str(refused.value) == (
        f"cannot listen on 127.0.0.1:{port}: Address already in use; --port takes another one"
    )


def test_a_port_is_taken_before_anybody_is_served() -> None:
    with listening_socket("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(PortTaken):
            listening_socket("127.0.0.1", port)


def test_an_address_that_is_not_ours_is_refused() -> None:
    with pytest.raises(PortTaken, match=r"cannot listen on 192\.0\.2\.1:0"):
        listening_socket("192.0.2.1", 0)


def test_a_wanted_port_is_given_while_it_is_free_and_another_when_it_is_not() -> None:
    wanted = free_port("127.0.0.1", 0)
    assert wanted > 0
    assert free_port("127.0.0.1", wanted) == wanted
    with socket.create_server(("127.0.0.1", wanted)):
        assert free_port("127.0.0.1", wanted) not in (0, wanted)


def test_addresses_are_written_as_a_client_writes_them() -> None:
    assert base_address("127.0.0.1", 8000) == "http://127.0.0.1:8000"
    assert base_address("::1", 80) == "http://[::1]:80"
