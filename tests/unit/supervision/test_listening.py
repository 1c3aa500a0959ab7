"""The gateways' listening socket."""

import os
import socket

import pytest

from penstock.domain.command_error import CommandError
from penstock.supervision.listening import BACKLOG, bind, url_of


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
