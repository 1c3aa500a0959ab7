"""A process in an engine's place, with a gate's pages and a log of steps.

``python -m tests.support.engines.logged PORT`` answers each question with yes. Its log follows a curve, and
``GET /learned`` gives the models that it was told. It imports nothing of penstock: it stands for an engine of another
release.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from typing import Any


def seconds(decoding: int, prompt: int, context: int) -> float:
    return 0.01 + 0.002 * (decoding + prompt) + 1e-6 * context


BATCHES = [(b, p, b * c, p * p / 2) for b, p, c in product((1, 4, 16), (0, 64), (50, 500))]
POINTS = [[b, p, c, pairs, seconds(b, p, c)] for b, p, c, pairs in BATCHES]
STEPS = {"hardware": "cpu x1", "steps": 1000, "disturbed": 0, "points": POINTS}
LOAD = {"running": 0, "waiting": 0, "queued_tokens": 0, "kv_used_ratio": 0.0, "wait_s": 0.0}
STATE = {"load": LOAD, "in_flight": 0, "inside": 0, "draining": False}
YES = {"choices": [{"text": "yes", "message": {"content": "yes"}}]}
LEARNED: list[Any] = []


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer(LEARNED if self.path == "/learned" else {})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/penstock/steps":
            LEARNED.extend([asked["learned"]] if asked["learned"] is not None else [])
            self._answer(STEPS)
        else:
            self._answer(STATE if self.path.startswith("/penstock/") else YES)

    def _answer(self, said: object) -> None:
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
