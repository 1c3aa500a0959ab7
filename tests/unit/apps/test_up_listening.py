"""The gateways' listening socket."""

import os
import socket

import pytest

from penstock.apps.trouble import Trouble
from penstock.apps.up.listening import listen


def test_port_zero_takes_a_free_one() -> None:
    """A socket on port 0 listens on a real port and is inherited by children."""
    with listen("127.0.0.1", 0) as listener:
        assert listener.getsockname()[1] > 0
        assert os.get_inheritable(listener.fileno())


def test_connections_wait_while_nobody_accepts() -> None:
    """A client can connect and send before any gateway accepts: that is what a restart looks like from outside."""
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname(), timeout=2) as client:
        client.sendall(b"hello")
        server, _ = listener.accept()
        with server:
            assert server.recv(5) == b"hello"


def test_a_used_port_names_the_setting() -> None:
    """A port in use ends in one sentence and the setting to change."""
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(Trouble, match=rf"Port {port} .* in use") as caught:
            listen("127.0.0.1", port)
    assert "PENSTOCK_PORT" in caught.value.do


def test_an_address_of_another_machine_is_refused_clearly() -> None:
    """A host that isn't ours ends in a sentence that names both settings."""
    with pytest.raises(Trouble, match=r"192\.0\.2\.1") as caught:
        listen("192.0.2.1", 0)
    assert "PENSTOCK_HOST" in caught.value.do
