"""Open-loop load over gRPC, as NVIDIA's perf tools make it: calls begin when they are planned, answered or not."""

import asyncio
import random

import pytest
from tritonclient.grpc import aio as triton

from penstock.gateway.calls.call import Call
from penstock.gateway.calls.relay import Reply
from tests.support.gateways.oip import answer
from tests.support.gateways.oip_grpc import AUTH, site, text
from tests.support.patience import patient

pytestmark = pytest.mark.filterwarnings("ignore:Protobuf gencode:UserWarning")
CALLS, PER_S = 200, 400.0


async def test_calls_that_come_by_plan_are_all_answered_each_with_its_own(chance: random.Random) -> None:
    """Poisson arrivals on one connection, many at a time: none waits for another, none gets another's answer."""
    under_way = most = 0

    async def serve(call: Call, reply: Reply) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.05)
        await answer(call, reply)
        under_way -= 1

    async with site(serve) as at, triton.InferenceServerClient(at.address) as client:

        async def ask(i: int) -> str:
            found = await client.infer("writer", [text(f"t{i}")], headers=AUTH)
            return str(found.as_numpy("text_output")[0].decode())

        async with asyncio.timeout(patient(30)), asyncio.TaskGroup() as asking:
            asked = []
            for i in range(CALLS):
                await asyncio.sleep(chance.expovariate(PER_S))
                asked.append(asking.create_task(ask(i)))
        assert [one.result() for one in asked] == [f"<t{i}>" for i in range(CALLS)]
    assert (under_way, most > 1) == (0, True)
