"""Calls that hold no message, over a real socket: nobody takes them all, with a key or without."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from penstock.gateway.oip.grpc.messages import POOL
from penstock.intake.limits import Limits
from tests.support.gateways.oip_grpc import AUTH, PLAIN, message, raw_call, site, until

pytestmark = pytest.mark.filterwarnings("ignore:Protobuf gencode:UserWarning")
FEW = Limits(connections=16, drain_grace_s=0.1)
"""Of 16 calls two are for strangers, and 14 for the rest."""
SERVICE = "/inference.GRPCInferenceService"
HEALTH, REFLECTION = "/grpc.health.v1.Health", "/grpc.reflection.v1alpha.ServerReflection"


@contextmanager
def opened(channel: grpc.aio.Channel, method: str, count: int, *, has_key: bool) -> Iterator[list[Any]]:
    """Hold so many calls that send their metadata and nothing else."""
    open_call: Any = channel.stream_stream(method)
    calls = [open_call(metadata=tuple(AUTH.items()) if has_key else None) for _ in range(count)]
    yield calls
    for call in calls:
        call.cancel()


async def codes_of(calls: list[Any], count: int) -> set[grpc.StatusCode]:
    """Return how those ended that were refused, once so many were."""
    await until(lambda: sum(call.done() for call in calls) == count)
    return {await call.code() for call in calls if call.done()}


@pytest.mark.parametrize("method", ["ModelInfer", "ModelStreamInfer", "ModelReady", "ServerLive"])
async def test_one_key_never_closes_the_server(method: str) -> None:
    """Headers of one key without messages reached the global bound, and nobody was answered any more."""
    async with site(limits=FEW) as at, grpc.aio.insecure_channel(at.address) as channel:
        with opened(channel, f"{SERVICE}/{method}", 20, has_key=True) as calls:
            assert await codes_of(calls, 9) == {grpc.StatusCode.RESOURCE_EXHAUSTED}
            live: Any = channel.unary_unary(f"{SERVICE}/ServerLive")
            assert await live(b"") == b"\x08\x01"


@pytest.mark.parametrize(
    "method",
    [f"{SERVICE}/ServerLive", f"{HEALTH}/Check", f"{HEALTH}/Watch", f"{REFLECTION}/ServerReflectionInfo"],
)
async def test_strangers_never_close_the_server(method: str) -> None:
    """What needs no key is not for ever either: an address holds half of what strangers have, and callers go on."""
    async with site(limits=FEW) as at, grpc.aio.insecure_channel(at.address) as channel:
        with opened(channel, method, 20, has_key=False) as calls:
            assert await codes_of(calls, 19) == {grpc.StatusCode.RESOURCE_EXHAUSTED}
            await raw_call(at, message(inputs=[PLAIN]))


@pytest.mark.parametrize(
    ("method", "limits"),
    [
        ("ModelInfer", Limits(body_timeout_s=0.05, drain_grace_s=0.1)),
        ("ModelStreamInfer", Limits(keep_alive_s=0.05, drain_grace_s=0.1)),
        ("ServerLive", Limits(header_timeout_s=0.05, drain_grace_s=0.1)),
    ],
)
async def test_a_call_without_a_message_ends(method: str, limits: Limits) -> None:
    """What HTTP gives a head, a body or an idle connection is what a message gets; then its place is free."""
    async with site(limits=limits) as at, grpc.aio.insecure_channel(at.address) as channel:
        with opened(channel, f"{SERVICE}/{method}", 1, has_key=True) as calls:
            assert await codes_of(calls, 1) == {grpc.StatusCode.DEADLINE_EXCEEDED}


async def test_a_question_is_short() -> None:
    """A name of a megabyte is not read."""
    async with site() as at, grpc.aio.insecure_channel(at.address) as channel:
        ask: Any = channel.unary_unary(f"{SERVICE}/ModelReady")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await ask(b"\x0a\x80\x80\x40" + b"a" * (1 << 20), metadata=tuple(AUTH.items()))
        assert "ModelReadyRequest is at most" in (caught.value.details() or "")


async def test_a_damaged_message_is_the_callers_mistake_on_every_method() -> None:
    """Each method that reflection describes answers INVALID_ARGUMENT; the library's own answer was UNKNOWN."""
    names = [SERVICE, HEALTH, REFLECTION, REFLECTION.replace("v1alpha", "v1")]
    async with site() as at, grpc.aio.insecure_channel(at.address) as channel:
        found = [POOL.FindServiceByName(name.removeprefix("/")) for name in names]
        methods = [f"/{service.full_name}/{method.name}" for service in found for method in service.methods]
        methods.remove(f"{SERVICE}/ModelStreamInfer")  # its stream goes on, and the error is a message in it
        assert len(methods) >= 12
        codes: dict[str, grpc.StatusCode] = {}
        for method in methods:
            send: Any = channel.stream_stream(method)
            call = send(iter([b"\xff\xff\xff"]), metadata=tuple(AUTH.items()))
            async with asyncio.timeout(10):
                codes[method] = await call.code()
    assert set(codes.values()) == {grpc.StatusCode.INVALID_ARGUMENT}, codes
