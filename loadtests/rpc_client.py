"""Callers of the Open Inference Protocol over gRPC, each asking again as soon as it was answered."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

COMPILED = Path(__file__).parents[1] / "platform/penstock/gateway/oip/grpc/open_inference.binpb"
SERVICE = "/inference.GRPCInferenceService/"
FINAL = b"triton_final_response\x12\x02\x08\x01"
"""How the last message of an answer says so."""


@dataclass(slots=True)
class Answered:
    done: int = 0
    failed: int = 0


def message_class(name: str) -> Any:  # noqa: ANN401  made at run time
    (file,) = descriptor_pb2.FileDescriptorSet.FromString(COMPILED.read_bytes()).file
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"inference.{name}"))


def request(model: str, text: str, tokens: int) -> bytes:
    made = message_class("ModelInferRequest")(model_name=model)
    made.inputs.add(name="text_input", datatype="BYTES", shape=[1]).contents.bytes_contents.append(text.encode())
    made.parameters["max_tokens"].int64_param = tokens
    return bytes(made.SerializeToString())


async def closed_loop(
    address: str, key: str, message: bytes, *, callers: int, seconds: float, is_stream: bool = False
) -> Answered:
    """Ask from this many callers for this time."""
    answered, until = Answered(), time.monotonic() + seconds
    ask = _streamed if is_stream else _whole
    async with grpc.aio.insecure_channel(address) as channel:

        async def caller() -> None:
            while time.monotonic() < until:
                try:
                    await ask(channel, message, (("authorization", f"Bearer {key}"),))
                    answered.done += 1
                except grpc.aio.AioRpcError:
                    answered.failed += 1

        await asyncio.gather(*(caller() for _ in range(callers)))
    return answered


async def _whole(channel: grpc.aio.Channel, message: bytes, metadata: tuple[tuple[str, str], ...]) -> None:
    ask: Any = channel.unary_unary(f"{SERVICE}ModelInfer")
    await ask(message, metadata=metadata)


async def _streamed(channel: grpc.aio.Channel, message: bytes, metadata: tuple[tuple[str, str], ...]) -> None:
    ask: Any = channel.stream_stream(f"{SERVICE}ModelStreamInfer")
    call = ask(metadata=metadata)
    await call.write(message)
    await call.done_writing()
    async for piece in call:
        if FINAL in piece:
            return
    raise AssertionError("a stream ended without its last message")
