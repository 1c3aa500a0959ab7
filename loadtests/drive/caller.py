"""One request from its planned time to its end, and the record of it.

It blocks, and takes its clock and its sleep from outside; it knows neither Locust nor gevent.
"""

import json
import time
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from itertools import pairwise

import msgspec

from loadtests.drive.records import End, Record
from loadtests.drive.run import Keys, Run
from loadtests.drive.sse import Stream, Usage, Whole, code_of
from loadtests.drive.wire import Connections
from loadtests.plan.planning import Turn
from loadtests.plan.prompts import text
from penstock.domain.models.model import Tier

READ_BYTES = 65_536
SLOW_READ_BYTES, SLOW_PAUSE_S = 256, 0.5
"""A slow reader takes about a token or two a second."""
OK, WRONG, REFUSALS = 200, range(400, 500), (429, 503)


def body_of(turn: Turn, tier: Tier, run: Run) -> tuple[str, bytes]:
    """Return a turn's path and body; made before its time comes."""
    words = text(turn.pieces, run.salt)
    if tier is Tier.EMBEDDING:
        return "/embeddings", json.dumps({"model": run.model, "input": words, **run.extra}).encode()
    body = {
        "model": run.model,
        "messages": [{"role": "user", "content": words}],
        "max_tokens": turn.output_tokens,
        "stream": not turn.unary,
        **({} if turn.unary else {"stream_options": {"include_usage": True}}),
        **run.extra,
    }
    return "/chat/completions", json.dumps(body).encode()


class Caller:
    """Asks, on shared connections; ``clock`` tells seconds since the run began."""

    def __init__(
        self, run: Run, keys: Keys, clock: Callable[[], float], sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Take the run, its tenants' keys and its time."""
        self._run, self._keys, self._clock, self._sleep = run, keys, clock, sleep
        self._connections = Connections(run.target)

    def ask(self, turn: Turn, record: Record, path: str, body: bytes) -> Record:
        """Ask once, and fill the record in. Never raises for what the target does."""
        record.began_at = self._clock()
        stream = Stream()
        try:
            with self._connections.lent(slow=turn.slow, within_s=self._left_s(record)) as connection:
                wait = connection.sock.settimeout  # by itself: an answer that ends the connection takes its socket away
                wait(self._left_s(record))
                connection.request("POST", self._connections.path + path, body, self._headers(record.tenant))
                answer = connection.getresponse()
                self._heads(answer, record)
                if record.status != OK:
                    self._refused(answer, record)
                elif answer.headers.get_content_type() == "text/event-stream":
                    self._streamed(wait, answer, turn, stream, record)
                else:
                    self._whole(answer, record)
        except TimeoutError:
            record.end = End.LATE
        except (OSError, HTTPException, ValueError) as error:
            record.end, record.code = End.BROKEN, type(error).__name__
        record.ended_at = self._clock()
        _settle(record, stream)
        return record

    def close(self) -> None:
        self._connections.close()

    def _headers(self, tenant: str) -> dict[str, str]:
        key = self._keys.get(tenant) or self._keys.get("", "")
        return {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}

    def _left_s(self, record: Record) -> float:
        """Return how long the caller still waits; it has waited since the planned time."""
        left_s = record.planned_at + self._run.timeout_s - self._clock()
        if left_s <= 0:
            raise TimeoutError
        return left_s

    @staticmethod
    def _heads(answer: HTTPResponse, record: Record) -> None:
        record.status = answer.status
        record.request_id = answer.headers.get("x-request-id", "")
        wait = answer.headers.get("retry-after", "")
        record.retry_after_s = float(wait) if wait.replace(".", "", 1).isdigit() else None

    @staticmethod
    def _refused(answer: HTTPResponse, record: Record) -> None:
        said = answer.read()
        try:
            record.code = code_of(json.loads(said))
        except ValueError:
            record.code = "error"
        if record.status in REFUSALS:
            record.end = End.REFUSED
        else:
            record.end = End.WRONG if record.status in WRONG else End.FAILED

    @staticmethod
    def _whole(answer: HTTPResponse, record: Record) -> None:
        usage = msgspec.json.decode(answer.read(), type=Whole).usage or Usage()
        record.end = End.WHOLE
        record.prompt_tokens, record.output_tokens = usage.prompt_tokens, usage.completion_tokens

    def _streamed(
        self, wait: Callable[[float], None], answer: HTTPResponse, turn: Turn, stream: Stream, record: Record
    ) -> None:
        while data := answer.read1(SLOW_READ_BYTES if turn.slow else READ_BYTES):
            stream.feed(data, self._clock())
            if turn.leaves_after_tokens and len(stream.texts_at) >= turn.leaves_after_tokens:
                record.end = End.LEFT
                return
            if turn.slow:
                self._sleep(SLOW_PAUSE_S)
            wait(self._left_s(record))
        record.end, record.code = End.WHOLE if stream.is_whole else End.BROKEN, stream.error


def _settle(record: Record, stream: Stream) -> None:
    """Take over what a stream told, however far it came."""
    if not stream.texts_at:
        return
    record.first_at = stream.texts_at[0]
    record.gaps_s = [round(after - before, 6) for before, after in pairwise(stream.texts_at)]
    record.prompt_tokens, record.output_tokens = stream.usage.prompt_tokens, stream.usage.completion_tokens
