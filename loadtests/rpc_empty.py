"""A server of grpc.aio that does nothing: what the library alone costs. ``python -m loadtests.rpc_empty``.

It prints its address and process as JSON, and answers each call with the same bytes, read as the gateway reads them.
"""

import asyncio
import json
import os
from typing import Any

import grpc
import grpc.aio
import uvloop

ANSWER = b"\x0a\x05bench" + bytes(120)


async def infer(_: object, context: Any) -> bytes:  # noqa: ANN401  the library's own types are generic over messages
    await context.read()
    return ANSWER


async def main() -> None:
    server = grpc.aio.server()
    methods = {"ModelInfer": grpc.stream_unary_rpc_method_handler(infer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("inference.GRPCInferenceService", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(json.dumps({"address": f"127.0.0.1:{port}", "pid": os.getpid()}), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main())
