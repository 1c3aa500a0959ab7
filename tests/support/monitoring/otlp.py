"""An OTLP receiver over HTTP: what came, decoded by the protocol's own classes, and as bytes."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class Collector:
    url: str = ""
    raw: list[bytes] = field(default_factory=list)

    def spans(self) -> dict[str, Span]:
        """Return the spans that came, by name."""
        resources = (resource for raw in self.raw for resource in _decoded(raw).resource_spans)
        scopes = (scope for resource in resources for scope in resource.scope_spans)
        return {span.name: span for scope in scopes for span in scope.spans}


def _decoded(raw: bytes) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    request.ParseFromString(raw)
    return request


@contextmanager
def collector() -> Iterator[Collector]:
    made = Collector()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.raw.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200 if self.path == "/v1/traces" else 404)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_address[1]}"
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield made
        server.shutdown()
        serving.join()
