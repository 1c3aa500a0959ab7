"""Clients that send too little for too long, and bytes that are no HTTP: bounded in time, harmless to others."""

import time
from contextlib import ExitStack

import pytest

from tests.support.clients.sockets import Wire
from tests.support.failures.table import CANARY, FaultTable
from tests.support.platforms.readings import Fleet

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

CHAT = "/v1/chat/completions"
BODY = {"model": "smollm2", "messages": [{"role": "user", "content": f"{CANARY} Hi"}], "max_tokens": 2}
DRIPPERS = 100


def test_a_slow_loris_is_cut_off(pair: Fleet, faults: FaultTable) -> None:
    """Headers that never end are answered with 408 when their time is over, while others are served."""
    began = time.monotonic()
    with ExitStack() as open_wires:
        wires = [open_wires.enter_context(Wire(pair.platform.url)) for _ in range(DRIPPERS)]
        for wire in wires:
            wire.send(b"POST /v1/chat/completions HTTP/1.1\r\nx-drip: ")
        with pair.platform.http() as http:
            assert http.post(CHAT, json=BODY).status_code == 200
        for wire in wires:
            wire.send(b"1")  # a byte now and then buys no time
        told = [wire.whole() for wire in wires]
        took_s = time.monotonic() - began
        assert {one.status for one in told} == {408}
        assert {one.json()["error"]["code"] for one in told} == {"request_timeout"}
        assert all(one.headers["x-request-id"] for one in told)
        assert all(wire.is_cut(within_s=5) for wire in wires)
    assert took_s < 8
    faults.add(
        f"slow loris: {DRIPPERS} connections drip their headers",
        "408 each when their 2 s are over; others served",
        took_s,
    )


def test_a_body_that_never_ends_is_cut_off(pair: Fleet, faults: FaultTable) -> None:
    """A promised body that does not come is answered with 408 when its time is over."""
    began = time.monotonic()
    with Wire(pair.platform.url) as wire:
        key = {"authorization": f"Bearer {pair.platform.demo_key}", "content-length": "1000"}
        wire.send(wire.head("POST", CHAT, key) + b'{"model":')
        told = wire.whole()
        took_s = time.monotonic() - began
        assert told.status == 408
        assert told.json()["error"]["code"] == "request_timeout"
        assert told.json()["error"]["retryable"] is True
        assert wire.is_cut(within_s=8)
    assert 2 < took_s < 10
    faults.add("a body that stops coming", "408 `request_timeout`", took_s)


def test_a_silent_connection_is_closed(pair: Fleet) -> None:
    """A connection that says nothing is closed without a word."""
    with Wire(pair.platform.url) as wire:
        assert wire.is_cut(within_s=8)


@pytest.mark.parametrize(
    "noise",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
        b"hello\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x00" * 100,
    ],
    ids=["tls", "words", "version", "zeros"],
)
def test_noise_is_answered_and_cut(pair: Fleet, noise: bytes) -> None:
    """Bytes that are no HTTP get a 400 in our shape, and the connection ends."""
    with Wire(pair.platform.url, timeout_s=10) as wire:
        wire.send(noise)
        told = wire.whole()
        assert told.status in {400, 505}
        assert told.headers["x-request-id"]
        assert wire.is_cut(within_s=5)


def test_chunks_without_order_are_refused(pair: Fleet) -> None:
    """A body with chunk sizes that are no numbers is refused as a bad request."""
    with Wire(pair.platform.url, timeout_s=10) as wire:
        key = {"authorization": f"Bearer {pair.platform.demo_key}", "transfer-encoding": "chunked"}
        wire.send(wire.head("POST", CHAT, key) + b"zz\r\nxx\r\n")
        told = wire.whole()
        assert told.status == 400
        assert told.json()["error"]["request_id"] == told.headers["x-request-id"]
