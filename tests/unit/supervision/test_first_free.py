import socket

from penstock.supervision.listening import bind_first_free


def test_a_port_that_is_free_is_taken_and_else_any() -> None:
    """The first controller of a machine has an address that can be written down; the next one finds another."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    with bind_first_free("127.0.0.1", port) as first, bind_first_free("127.0.0.1", port) as second:
        assert first.getsockname()[1] == port
        assert second.getsockname()[1] not in {0, port}
