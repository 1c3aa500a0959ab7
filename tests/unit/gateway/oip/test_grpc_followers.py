"""Callers under one idempotency key over gRPC: a follower has its answer though the first caller has left."""

import asyncio
from dataclasses import replace
from typing import Any

import grpc
import pytest

from penstock.connectors.memory.answers import MemoryAnswers
from penstock.domain.clock import SystemClock
from penstock.domain.outcome import Outcome
from penstock.gateway.calls.call import Call
from penstock.gateway.calls.relay import Reply
from penstock.gateway.oip.grpc.server import RpcServer
from penstock.gateway.openai.idempotent import Once, Use
from penstock.gateway.openai.services import Facts
from tests.support.gateways.oip import TABLE, answer, oip_edge
from tests.support.gateways.oip_grpc import AUTH, PLAIN, message, until

pytestmark = pytest.mark.filterwarnings("ignore:Protobuf gencode:UserWarning")
INFER = "/inference.GRPCInferenceService/ModelInfer"


async def test_a_follower_survives_the_first_callers_leaving() -> None:
    """Both ask ModelInfer with one key; the first cancels, and the engine is asked once."""
    go_on, uses, asked = asyncio.Event(), list[Use](), 0

    async def slow(call: Call, reply: Reply) -> Outcome:
        nonlocal asked
        asked += 1
        await go_on.wait()
        await answer(call, reply)
        return Outcome.OK

    edge, toy = oip_edge(slow)
    once = Once(toy, MemoryAnswers(SystemClock()), count=uses.append)
    server = RpcServer(replace(edge, corridor=once), Facts(table=lambda: TABLE, missing=lambda: ""))
    port = await server.start("127.0.0.1", 0)
    asks, address = message(inputs=[PLAIN]), f"127.0.0.1:{port}"
    async with grpc.aio.insecure_channel(address) as one, grpc.aio.insecure_channel(address) as two:
        one_infer: Any = one.unary_unary(INFER)
        two_infer: Any = two.unary_unary(INFER)
        told = (*AUTH.items(), ("idempotency-key", "k"))
        first = one_infer(asks, metadata=told)
        await until(lambda: asked == 1)
        second = two_infer(asks, metadata=told)
        await asyncio.sleep(0.1)  # it follows: nothing says so
        first.cancel()
        await asyncio.sleep(0.05)
        go_on.set()
        assert b"<hi>" in await second
    assert asked == 1
    await server.drain()
