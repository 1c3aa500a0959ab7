"""A gRPC server of the Open Inference Protocol around a toy, and messages by hand."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import numpy as np
import tritonclient.grpc as sync_client
from tritonclient.grpc import aio as triton

from penstock.gateway.oip.grpc.server import RpcServer
from penstock.gateway.openai.services import Facts
from penstock.intake.limits import Limits
from tests.support.gateways.oip import TABLE, answer, oip_edge
from tests.support.gateways.toy import SECRET, Serve, Toy
from tests.support.patience import patient

AUTH = {"authorization": f"Bearer {SECRET}"}


class Site:
    """A server, its address, and what its corridor saw."""

    def __init__(self, address: str, toy: Toy) -> None:
        self.address, self.toy = address, toy


@asynccontextmanager
async def site(serve: Serve = answer, limits: Limits | None = None) -> AsyncIterator[Site]:
    """Run a server on a free port."""
    edge, toy = oip_edge(serve, limits or Limits(drain_grace_s=0.1))
    server = RpcServer(edge, Facts(table=lambda: TABLE, missing=lambda: ""))
    port = await server.start("127.0.0.1", 0)
    try:
        yield Site(f"127.0.0.1:{port}", toy)
    finally:
        await server.drain()


def text(*texts: str, shape: tuple[int, ...] | None = None) -> Any:  # noqa: ANN401  the client has no types
    made = triton.InferInput("text_input", list(shape or (len(texts),)), "BYTES")
    made.set_data_from_numpy(np.array([one.encode() for one in texts], dtype=np.object_).reshape(shape or (-1,)))
    return made


async def raw_call(at: Site, request: bytes, **options: Any) -> tuple[bytes, dict[str, Any]]:  # noqa: ANN401
    """Send a message without any client's help; return the answer and its trailers."""
    async with grpc.aio.insecure_channel(at.address) as channel:
        ask: Any = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        call = ask(request, metadata=tuple(AUTH.items()), **options)
        data = await call
        return data, dict(await call.trailing_metadata())


def message(**fields: object) -> bytes:
    """Return a request as the client's own classes write it."""
    return bytes(sync_client.service_pb2.ModelInferRequest(model_name="writer", **fields).SerializeToString())


TEXT = {"name": "text_input", "datatype": "BYTES", "shape": [1]}
PLAIN = {**TEXT, "contents": {"bytes_contents": [b"hi"]}}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(patient(5)):
        while not condition():  # noqa: ASYNC110  what it looks at has no events
            await asyncio.sleep(0.005)
