"""Translates a request of the protocol into the pipeline's: a request of the model's own API, or packed tensors."""

import asyncio
import hashlib
from collections.abc import Sequence

import msgspec

from penstock.domain.models.tensors import Datatype, Tensor, elements_of
from penstock.domain.serving.request import PackedTensors
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tenancy.tenant import Principal
from penstock.formats import pictures
from penstock.gateway.oip import json_wire
from penstock.gateway.oip.forms import Body, Form
from penstock.gateway.oip.nouns import InferRequest
from penstock.gateway.openai.bounds import BodyBounds
from penstock.gateway.openai.parse import Parsed
from penstock.gateway.openai.reading import BodyReader
from penstock.gateway.preprocess.offload import DONE

_AT_ONCE = 256
"""Image headers read before the event loop runs other tasks: 2 ms."""
_COPIED_BYTES = 1 << 20
"""Bytes that are copied in 1 ms."""
_ENCODER = msgspec.json.Encoder()


async def packed(
    form: Form, asked: InferRequest, body: Body, *, is_repeatable: bool
) -> tuple[Parsed, PackedTensors] | None:
    """Return None if the model takes none.

    With an idempotency key the body contains the tensors' digest, since bodies are compared.
    """
    if form.pack is None:
        return None
    if sum(one.data.nbytes for one in asked.inputs) > _COPIED_BYTES:
        await asyncio.sleep(0)  # the wire has just copied all of it at one go
    tensors = form.pack(asked)
    if is_repeatable:
        body = {**body, "tensors": (await asyncio.to_thread(hashlib.sha256, tensors.data)).hexdigest()}
    items, (text, decoded, copied) = tensors.items, await _measured(asked.inputs)
    cost = Cost(
        prompts=items,
        sequences=items,
        output_tokens=0,
        body_bytes=tensors.head_bytes + text,
        decode_tokens=decoded,
        copied_tokens=copied,
    )
    made = Parsed(body=body, model=str(body["model"]), stream=False, include_usage=False, cost=cost)
    return made, tensors


async def _measured(inputs: Sequence[Tensor]) -> tuple[int, int, int]:
    """Cost without the model: bytes read as text, tokens of images, tokens of copied bytes."""
    text = decoded = copied = 0
    for tensor in inputs:
        if tensor.spec.datatype is not Datatype.BYTES:
            copied += pictures.tokens_of(None, tensor.data.nbytes)
            continue
        for i, element in enumerate(elements_of(tensor)):
            tokens = pictures.tokens_of_item(element)
            text += 0 if tokens else len(element)
            decoded += tokens
            if i % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
    return text, decoded, copied


async def parsed(reader: BodyReader, who: Principal, form: Form, body: Body, bounds: BodyBounds) -> tuple[Parsed, str]:
    return await reader.read(who.tenant, form.api, _ENCODER.encode(body), bounds)


async def asked_by(reader: BodyReader, who: str, raw: bytes, head_length: int | None) -> InferRequest:
    head, rest = json_wire.parted(raw, head_length)
    answer = await reader.tensors(who, head)
    if answer is None:
        return json_wire.read(raw, head_length)
    size, _, packed = bytes(answer).partition(b"\n")
    told, blobs = memoryview(packed)[: int(size)], memoryview(packed)[int(size) :]
    return json_wire.read_packed(told, blobs, rest)


def read(frame: memoryview) -> Sequence[bytes]:
    told, blobs = json_wire.packed_head(frame)
    return (DONE, b"%d\n" % len(told), told, *blobs)
