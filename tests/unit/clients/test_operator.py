"""What a client of the operator API makes for itself, and how often."""

import ssl
from unittest.mock import Mock

import pytest

from penstock.clients.operator import Operator
from penstock.domain.command_error import CommandError
from tests.support.controllers.process import free_port


@pytest.mark.parametrize(("scheme", "reads"), [("http", 0), ("https", 1)])
def test_the_machines_authorities_are_read_once_where_they_are_needed(
    monkeypatch: pytest.MonkeyPatch, scheme: str, reads: int
) -> None:
    """Not for each call, which who waits for a platform makes many of, and not at all where no TLS is spoken."""
    read = Mock(side_effect=ssl.create_default_context)
    monkeypatch.setattr(ssl, "create_default_context", read)
    operator = Operator(f"{scheme}://127.0.0.1:{free_port()}", "psk_none")
    for _ in range(3):
        with pytest.raises(CommandError, match="No controller answers"):
            operator.get("/status")
    assert read.call_count == reads
