"""The gateways' listening socket."""

import os
import socket

import pytest

from penstock.domain.command_error import CommandError
from penstock.supervision.listening import BACKLOG, bind, reserve, url_of

HOST = "127.0.0.1"


def test_port_zero_takes_a_free_one() -> None:
    """A socket on port 0 gets a real port and is inherited by children."""
    with bind("127.0.0.1", 0) as listener:
        assert listener.getsockname()[1] > 0
        assert os.get_inheritable(listener.fileno())


def test_connections_wait_while_nobody_accepts() -> None:
    """A client can connect and send before any gateway accepts: that is what a restart looks like from outside."""
    with bind("127.0.0.1", 0) as listener:
        listener.listen(BACKLOG)
        with socket.create_connection(listener.getsockname(), timeout=2) as client:
            client.sendall(b"hello")
            server, _ = listener.accept()
            with server:
                assert server.recv(5) == b"hello"


def test_a_used_port_names_the_setting() -> None:
    """A port in use ends in one sentence and the setting to change."""
    with bind("127.0.0.1", 0) as first:
        first.listen(BACKLOG)
        port = first.getsockname()[1]
        with pytest.raises(CommandError, match=rf"Port {port} .* in use") as caught:
            bind("127.0.0.1", port)
    assert "PENSTOCK_PORT" in caught.value.do


def test_an_address_of_another_machine_is_refused_clearly() -> None:
    """A host that isn't ours ends in a sentence that names both settings."""
    with pytest.raises(CommandError, match=r"192\.0\.2\.1") as caught:
        bind("192.0.2.1", 0)
    assert "PENSTOCK_HOST" in caught.value.do


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:81"),
        ("0.0.0.0", "http://127.0.0.1:81"),
        ("::1", "http://[::1]:81"),
        ("::", "http://[::1]:81"),
        ("penstock.example", "http://penstock.example:81"),
    ],
)
def test_the_printed_address_can_be_used(host: str, url: str) -> None:
    """An address that means every interface is told as the one of this machine."""
    assert url_of(host, 81) == url


def shared(port: int) -> socket.socket:
    """Return a socket of another process that shares the port."""
    other = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    other.bind((HOST, port))
    return other


def test_the_port_behind_is_reserved_and_can_be_shared() -> None:
    """A reserved port is the one behind, and processes that share it may bind it as well; nobody else may."""
    with bind(HOST, 0) as first:
        behind = first.getsockname()[1]
        with reserve(HOST, 0, behind=behind, setting="X") as reserved:
            port = reserved.getsockname()[1]
            shared(port).close()
            with pytest.raises(CommandError):
                bind(HOST, port)


def test_a_reserved_port_that_somebody_has_is_another_one_or_an_error() -> None:
    """Where nobody named the port any free one does; a named one that is taken ends in words with the setting."""
    with bind(HOST, 0) as taken:
        port = taken.getsockname()[1]
        with reserve(HOST, 0, behind=port - 1, setting="X") as reserved:
            assert reserved.getsockname()[1] != port
        with pytest.raises(CommandError) as caught:
            reserve(HOST, port, behind=1, setting="PENSTOCK_X")
    assert "PENSTOCK_X" in (caught.value.do or "")
