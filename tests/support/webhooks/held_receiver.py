"""A receiver of webhooks that answers when a test lets it, and keeps what it was sent."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class HeldReceiver(ThreadingHTTPServer):
    """Answers 204; nothing while ``opened`` is not set."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.came: list[tuple[dict[str, str], bytes]] = []
        self.opened = threading.Event()
        self.opened.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hooks"

    def ids(self, told: str) -> list[str]:
        """Return the ids of the messages that were about an object, in the order in which they came."""
        return [headers["webhook-id"] for headers, body in self.came if about(body) == told]


class _Handler(BaseHTTPRequestHandler):
    server: HeldReceiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.came.append((dict(self.headers.items()), body))
        self.server.opened.wait(30)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the library's name
        """Say nothing."""


@contextmanager
def held_receiver() -> Iterator[HeldReceiver]:
    """Serve on loopback, which the platform of these tests allows."""
    server = HeldReceiver()
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield server
    finally:
        server.opened.set()
        server.shutdown()
        serving.join()
        server.server_close()


def about(body: bytes) -> str:
    return str(json.loads(body)["data"]["id"])
