"""One request over gRPC by itself, without a socket: who asks, and what it leaves behind."""

import gc
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from unittest.mock import Mock

import pytest

from penstock.domain.errors import Forbidden
from penstock.domain.tenancy.credentials import Claim
from penstock.domain.tenancy.tenant import Principal, Role
from penstock.gateway.oip.grpc.calls import RpcCaller
from penstock.gateway.oip.grpc.exchange import RpcExchange, StreamedExchange, UnaryExchange
from penstock.gateway.oip.grpc.replies import Outbox
from penstock.gateway.openai.services import Identity
from penstock.intake.limits import Limits
from penstock.intake.relay import Client
from tests.support.gateways.oip import oip_edge
from tests.support.gateways.oip_grpc import PLAIN, message
from tests.support.gateways.toy import SECRET, Toy

pytestmark = pytest.mark.filterwarnings("ignore:Protobuf gencode:UserWarning")
HEADERS = [(b"authorization", f"Bearer {SECRET}".encode())]
GOOD = message(inputs=[PLAIN])


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Let no collector run."""
    gc.disable()
    yield
    gc.enable()


@dataclass
class Watched:
    """An identity that says how often a key was looked at."""

    inner: Identity
    looks: int = 0

    def authenticate(self, credential: str) -> Principal:
        self.looks += 1
        return self.inner.authenticate(credential)

    def recognise(self, credential: str) -> Principal:
        self.looks += 1
        return self.inner.recognise(credential)

    def asking(self, who: Principal) -> Principal:
        return self.inner.asking(who)

    def claimed(self, credential: str) -> Claim:
        return self.inner.claimed(credential)


def caller(who: Principal | None) -> RpcCaller:
    return RpcCaller(HEADERS, who, Client(Mock(now=time.monotonic, limits=Limits())))


async def _run(exchange: RpcExchange, toy: Toy) -> None:
    await exchange.run(toy.serve)
    toy.seen.calls.clear()


@pytest.mark.usefixtures("uncollected")
async def test_a_whole_answer_leaves_nothing_to_the_collector() -> None:
    """An exchange and its reply know one another until the answer is there, and no longer."""

    async def read() -> bytes:
        return GOOD

    edge, toy = oip_edge()
    exchange = UnaryExchange(edge, caller(None), read, None)
    gone = weakref.ref(exchange._way_back)
    await _run(exchange, toy)
    assert exchange.message is not None
    del exchange
    assert gone() is None


@pytest.mark.usefixtures("uncollected")
async def test_a_request_of_a_stream_leaves_nothing_to_the_collector() -> None:
    """As a whole answer: thousands of requests may come on one stream."""
    raw = message(inputs=[PLAIN], parameters={"stream": {"bool_param": False}})
    edge, toy = oip_edge()
    exchange = StreamedExchange(edge, HEADERS, raw, None, Outbox())
    gone = weakref.ref(exchange._way_back)
    await _run(exchange, toy)
    del exchange
    assert gone() is None


async def test_who_was_recognised_is_not_looked_at_again() -> None:
    """A call's key is hashed once: for its place among the calls, and for its request."""

    async def read() -> bytes:
        return GOOD

    edge, toy = oip_edge()
    watched = Watched(edge.identity)
    exchange = UnaryExchange(replace(edge, identity=watched), caller(edge.identity.recognise(SECRET)), read, None)
    await exchange.run(toy.serve)
    assert (exchange.message is not None, watched.looks) == (True, 0)


async def test_who_was_recognised_may_still_be_no_asker() -> None:
    """An auditor's key opens the call and asks no model."""

    async def read() -> bytes:
        return GOOD

    edge, toy = oip_edge()
    auditor = replace(edge.identity.recognise(SECRET), role=Role.AUDITOR)
    exchange = UnaryExchange(edge, caller(auditor), read, None)
    await exchange.run(toy.serve)
    assert (type(exchange.error), toy.seen.calls) == (Forbidden, [])
