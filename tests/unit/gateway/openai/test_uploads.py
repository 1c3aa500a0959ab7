"""A body that its caller sends slowly: that time stands by itself, and no promise of the platform counts it."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from unittest.mock import Mock

from penstock.domain.outcome import Outcome, Stage
from penstock.gateway.calls.call import Call
from penstock.gateway.oip.grpc.calls import RpcCaller
from penstock.gateway.oip.grpc.exchange import UnaryExchange
from penstock.intake.limits import Limits
from penstock.intake.relay import Client
from penstock.intake.types import Message
from tests.support.clock import ManualClock
from tests.support.gateways.toy import REQUEST, SECRET, Toy, edge, hello

HEADERS = [(b"authorization", f"Bearer {SECRET}".encode())]
SCOPE = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": HEADERS}


async def _send(message: Message) -> None:
    del message


async def test_a_slow_body_is_a_stage_of_its_own(clock: ManualClock) -> None:
    """Half a minute between two pieces of a body is the caller's, and what is done with the body is not."""

    async def pieces() -> AsyncIterator[Message]:
        yield {"type": "http.request", "body": REQUEST[:10], "more_body": True}
        clock.advance(30.0)
        yield {"type": "http.request", "body": REQUEST[10:], "more_body": False}

    toy, coming = Toy(hello), pieces()
    await replace(edge(toy, Limits()), clock=clock)(SCOPE, coming.__anext__, _send)
    call: Call = toy.seen.calls[0]
    assert call.timings.seconds == {Stage.AUTH: 0.0, Stage.EDGE: 0.0, Stage.UPLOAD: 30.0}
    assert call.received_at == call.request.arrived_at + 30.0


async def test_a_slow_message_of_grpc_is_one_too(clock: ManualClock) -> None:
    """A caller that begins a call and sends its message later has taken its own time."""

    async def message() -> bytes:
        clock.advance(30.0)
        return b"\xff"

    caller = RpcCaller(HEADERS, None, Client(Mock(now=time.monotonic, limits=Limits())))
    exchange = UnaryExchange(replace(edge(Toy(hello), Limits()), clock=clock), caller, message, None)
    await exchange.run(Toy(hello).serve)
    assert dict(exchange.told)[b"server-timing"].endswith(b"upload;dur=30000.000")


async def test_a_body_that_is_dropped_half_way_is_counted() -> None:
    """Who begins to send and leaves has asked for something: its tenant's count and its record say how it ended."""

    async def pieces() -> AsyncIterator[Message]:
        yield {"type": "http.request", "body": REQUEST[:10], "more_body": True}
        yield {"type": "http.disconnect"}

    kept: list[tuple[Outcome, str]] = []
    toy, coming = Toy(hello), pieces()
    app = replace(edge(toy, Limits()), keep_early=lambda error, early: kept.append((error.outcome, early.who.tenant)))
    await app(SCOPE, coming.__anext__, _send)
    assert (kept, toy.seen.calls, toy.seen.refused) == ([(Outcome.CANCELLED, "acme")], [], [])
