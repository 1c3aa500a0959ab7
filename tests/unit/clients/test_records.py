"""Asking gateways for a record: the first that has it tells, whoever is away is passed over."""

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.clients import records
from penstock.domain.command_error import CommandError


@contextmanager
def gateway(*known: str) -> Iterator[str]:
    """Yield the address of something that knows these requests."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path.rpartition("/")[2] in known and self.headers["authorization"] == "Bearer key"
            error = {"message": "none", "code": "request_not_found", "request_id": "r"}
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(json.dumps({"id": self.path} if found else {"error": error}).encode())

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        serving.join()


def test_each_gateway_is_asked_until_one_knows() -> None:
    """A gateway that does not know it, and one that is away, don't hide the one that has the record."""
    with gateway("req-1") as first, gateway("req-2") as second:
        assert records.find(["http://127.0.0.1:9", first, second], "key", "req-2") == {"id": "/v1/requests/req-2"}
        with pytest.raises(CommandError, match="request_not_found"):
            records.find([first, second], "key", "req-3")
    with pytest.raises(CommandError, match="No gateway answers"):
        records.find(["http://127.0.0.1:9"], "key", "req-1")


def test_a_name_stands_for_all_of_its_addresses() -> None:
    """A headless service's name is asked at each of its addresses; with TLS at its name, which the certificate has."""
    assert "http://127.0.0.1:80" in records.each("http://localhost/")
    assert records.each("https://api.example.com/") == ["https://api.example.com"]
    assert records.each("http://127.0.0.1:8080") == ["http://127.0.0.1:8080"]
