import asyncio
import itertools
import json
import time
from collections.abc import Sequence
from contextlib import closing

import msgspec

from loadtests.drive.caller import Caller, body_of
from loadtests.drive.records import End, Record
from loadtests.drive.run import Run
from loadtests.plan.planning import Turn
from penstock.domain.models.model import Tier
from tests.support.engines.raw_server import CLOSE, raw_server

TURN = Turn(pieces=(("one", 3),), output_tokens=3)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: req-1\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def word(text: str) -> bytes:
    return chunk(b'data: {"choices":[{"delta":{"content":"' + text.encode() + b'"}}]}\n\n')


USAGE = chunk(b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}\n\n')
DONE = chunk(b"data: [DONE]\n\n")


def refusal(status: str, headers: str = "") -> bytes:
    body = b'{"error":{"code":"overloaded"}}'
    return f"HTTP/1.1 {status}\r\n{headers}content-length: {len(body)}\r\n\r\n".encode() + body


def run_of(url: str, *, timeout_s: float = 5.0) -> Run:
    return Run(
        scenario="s",
        target=url,
        model="m",
        seed=1,
        per_s=1.0,
        duration_s=1.0,
        timeout_s=timeout_s,
        salt="x",
        tiers={"a": Tier.CHAT},
    )


async def asked(
    answer: Sequence[bytes], *, turn: Turn = TURN, timeout_s: float = 5.0, late_s: float = 0.0
) -> tuple[Record, list[bytes]]:
    """Ask once; return the record and what the server was sent. The server would answer again, so it stays open."""
    async with raw_server(answer, answer) as server:
        run, began = run_of(server.url, timeout_s=timeout_s), time.monotonic()
        with closing(Caller(run, {"a": "key-a", "": "key-of-all"}, lambda: time.monotonic() - began)) as caller:
            record = Record(tenant="a", planned_at=-late_s, began_at=0.0)
            await asyncio.to_thread(caller.ask, turn, record, *body_of(turn, Tier.CHAT, run))
        await asyncio.sleep(0.01)  # the server sees the connection end
        return record, server.requests


async def test_a_whole_stream_is_recorded() -> None:
    """First token, gaps, usage and request id are taken from the stream."""
    record, requests = await asked([CHUNKED, word("Once"), word("upon"), USAGE, DONE, END])
    assert (record.end, record.status, record.request_id) == (End.WHOLE, 200, "req-1")
    assert (record.prompt_tokens, record.output_tokens, len(record.gaps_s)) == (5, 2, 1)
    assert record.first_at is not None
    assert record.began_at < record.first_at < record.ended_at
    assert b"authorization: Bearer key-a" in requests[0].lower().replace(b"bearer", b"Bearer")


async def test_latency_counts_from_the_planned_time() -> None:
    """A request that is sent a second late has waited that second too."""
    record, _ = await asked([CHUNKED, word("Once"), DONE, END], late_s=1.0)
    assert record.ttft_s is not None
    assert record.ttft_s - record.lag_s < 1.0 <= record.ttft_s + 1e-3


async def test_a_refusal_keeps_its_word_and_its_time() -> None:
    """A 503 is a refusal with its code and its Retry-After, and has no first token."""
    record, _ = await asked([refusal("503 Busy", "retry-after: 7\r\n")])
    assert (record.end, record.code, record.retry_after_s, record.ttft_s) == (End.REFUSED, "overloaded", 7.0, None)


async def test_a_refusal_without_a_time_says_so() -> None:
    """Without Retry-After, or with one that is no number of seconds, the time is unknown."""
    assert (await asked([refusal("429 Slow")]))[0].retry_after_s is None
    assert (await asked([refusal("429 Slow", "retry-after: soon\r\n")]))[0].retry_after_s is None


async def test_ends_are_told_apart() -> None:
    """The caller's fault, the target's failure, broken and late streams have ends of their own."""
    assert (await asked([refusal("401 No")]))[0].end is End.WRONG
    assert (await asked([refusal("500 Oh")]))[0].end is End.FAILED
    assert (await asked([CHUNKED, word("Once"), CLOSE]))[0].end is End.BROKEN
    error = chunk(b'data: {"error":{"code":"worker_lost"}}\n\n')
    record, _ = await asked([CHUNKED, word("Once"), error, DONE, END])
    assert (record.end, record.code) == (End.BROKEN, "worker_lost")
    assert (await asked([CHUNKED, word("Once")], timeout_s=0.3))[0].end is End.LATE


async def test_a_late_stream_keeps_what_it_had() -> None:
    """What came before the caller gave up counts: its first token was there."""
    record, _ = await asked([CHUNKED, word("Once")], timeout_s=0.3)
    assert record.first_at is not None


async def test_an_unreachable_target_is_recorded_and_not_raised() -> None:
    """A connection that nobody takes is a broken request."""
    run = run_of("http://127.0.0.1:9")
    record = Caller(run, {}, itertools.count().__next__).ask(
        TURN, Record(tenant="a", planned_at=0, began_at=0), "/x", b""
    )
    assert (record.end, record.code) == (End.BROKEN, "ConnectionRefusedError")


async def test_who_leaves_hangs_up_after_so_many_tokens() -> None:
    """A leaver closes its connection in the middle of the answer, and is recorded as gone by plan."""
    turn = Turn(pieces=(("one", 3),), output_tokens=9, leaves_after_tokens=2)
    record, _ = await asked([CHUNKED, word("Once"), word("upon"), word("a"), USAGE, DONE, END], turn=turn)
    assert record.end is End.LEFT


async def test_connections_are_kept_and_an_ended_one_is_not_used_again() -> None:
    """Two answers come over one connection; after an answer that ends it, the next caller opens another."""
    stream = [CHUNKED, word("Once"), DONE, END]
    async with raw_server(stream, stream) as server:
        await _twice(server.url)
        assert server.connections == 1
    closing = [HEAD + b"connection: close\r\n\r\n", b'data: {"choices":[]}\n\ndata: [DONE]\n\n', CLOSE]
    async with raw_server(closing, stream) as server:
        ends = await _twice(server.url)
        assert (server.connections, ends) == (2, [End.WHOLE, End.WHOLE])


async def _twice(url: str) -> list[End]:
    run, began = run_of(url), time.monotonic()
    records = [Record(tenant="a", planned_at=0.0, began_at=0.0) for _ in range(2)]
    with closing(Caller(run, {}, lambda: time.monotonic() - began)) as caller:
        for record in records:
            await asyncio.to_thread(caller.ask, TURN, record, *body_of(TURN, Tier.CHAT, run))
    await asyncio.sleep(0.01)
    return [record.end for record in records]


def test_a_body_is_what_the_plan_says() -> None:
    """A stream asks for its usage, a unary answer does not stream, and extra fields are in both."""
    run = msgspec.structs.replace(run_of("http://x"), extra={"ignore_eos": True})
    path, stream = body_of(TURN, Tier.CHAT, run)
    body = json.loads(stream)
    assert (path, body["stream"], body["max_tokens"], body["ignore_eos"]) == ("/chat/completions", True, 3, True)
    assert body["stream_options"] == {"include_usage": True}
    unary = json.loads(body_of(Turn(pieces=(("one", 3),), output_tokens=3, unary=True), Tier.CHAT, run)[1])
    assert (unary["stream"], "stream_options" in unary) == (False, False)
    path, embedding = body_of(TURN, Tier.EMBEDDING, run)
    assert (path, len(json.loads(embedding)["input"].split())) == ("/embeddings", 3)
