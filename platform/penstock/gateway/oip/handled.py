"""Models with a handler: their own tensors, sent to the worker in binary form. Pure.

Tensors are checked against the version's description before they wait for a device. Texts that count as tokens are sent
along for preprocessing.
"""

import json
from collections.abc import Sequence
from functools import partial
from math import prod

import msgspec

from penstock.domain.errors import EngineError, InvalidField
from penstock.domain.models.model import HandlerSettings
from penstock.domain.models.tensors import ANY, BINARY_SIZE, CLASSES, Datatype, Tensor, TensorSpec, checked
from penstock.domain.serving.request import Api, PackedTensors
from penstock.gateway.oip.forms import Body, Form
from penstock.gateway.oip.json_answers import described
from penstock.gateway.oip.nouns import MAX_ELEMENTS, MAX_ITEMS, InferAnswer, InferRequest, Wanted, spec
from penstock.gateway.oip.scalars import of_model, options, texts_of

_ENCODER = msgspec.json.Encoder()
_SCANNED_BYTES = 1 << 20
"""Bytes to scan: the JSON before an answer's tensors is much shorter."""


class _Told(msgspec.Struct, gc=False):
    name: str
    datatype: Datatype
    shape: list[int]
    parameters: dict[str, int]


class _Answer(msgspec.Struct, gc=False):
    outputs: list[_Told]


def form_of(handler: HandlerSettings) -> Form:
    return Form(
        api=Api.INFER,
        inputs=handler.inputs,
        outputs=handler.outputs,
        body=partial(_body, handler),
        answer=_answer,
        pack=_packed,
    )


def _body(handler: HandlerSettings, request: InferRequest) -> Body:
    """Return a body with the texts to count, if any; raises ``InvalidField``."""
    options(of_model(request.parameters), (), frozenset())
    known = {one.name: one for one in handler.inputs}
    for tensor in request.inputs:
        _check(tensor, known)
    _check_whole(handler, [tensor.spec for tensor in request.inputs])
    _check_classes(handler, request)
    counts = {items_of(tensor) for tensor in request.inputs}
    if len(counts) > 1:
        raise InvalidField("inputs must hold the same number of items", param="inputs")
    texts = [tensor for tensor in request.inputs if tensor.spec.datatype is Datatype.BYTES]
    return {"input": texts_of(texts[0])} if texts and not handler.item_tokens else {}


def _check(tensor: Tensor, known: dict[str, TensorSpec]) -> None:
    given = tensor.spec
    wanted = known.get(given.name)
    if wanted is None:
        raise InvalidField(f"there is no input {given.name[:80]!r}; there are {', '.join(known)}", param=given.name)
    if not wanted.takes(given):
        shapes = f"{wanted.datatype} {list(wanted.shape)}, not {given.datatype} {list(given.shape)}"
        raise InvalidField(f"{given.name} must be {shapes}", param=given.name)
    if not 1 <= items_of(tensor) <= MAX_ITEMS:
        raise InvalidField(f"{given.name} must hold from 1 to {MAX_ITEMS} items", param=given.name)


def ways(handler: HandlerSettings) -> str:
    """Valid combinations of inputs: each ``BYTES`` alone, or all numeric tensors together."""
    texts = [one.name for one in handler.inputs if one.datatype is Datatype.BYTES]
    numbers = [one.name for one in handler.inputs if one.datatype is not Datatype.BYTES]
    together = " with ".join(f"[{name}]" if name in handler.optional else name for name in numbers)
    return " or ".join([*texts, together] if together else texts)


def _check_whole(handler: HandlerSettings, given: Sequence[TensorSpec]) -> None:
    alone = next((one.name for one in given if one.datatype is Datatype.BYTES), "")
    if alone and len(given) > 1:
        raise InvalidField(f"{alone} is given alone: this model takes {ways(handler)}", param=alone)
    if alone:
        return
    names = {one.name for one in given}
    for one in handler.inputs:
        if one.datatype is not Datatype.BYTES and one.name not in names and one.name not in handler.optional:
            raise InvalidField(f"the input {one.name} is missing: this model takes {ways(handler)}", param=one.name)


def _check_classes(handler: HandlerSettings, request: InferRequest) -> None:
    outputs = {one.name: one for one in handler.outputs}
    told = 0
    for name, classes in request.classified.items():
        if outputs[name].datatype is Datatype.BYTES:
            raise InvalidField(f"{name} has no classes: it is {Datatype.BYTES}", param=name)
        there = prod(outputs[name].shape[1:]) if ANY not in outputs[name].shape[1:] else classes
        told += min(classes, there) * items_of(request.inputs[0])
        if told > MAX_ELEMENTS:
            what = f"{name}: {CLASSES} would return more than {MAX_ELEMENTS} classes: ask for fewer, or for the numbers"
            raise InvalidField(what, param=name)


def items_of(tensor: Tensor) -> int:
    return tensor.spec.shape[0] if tensor.spec.shape else 0


def _packed(request: InferRequest) -> PackedTensors:
    inputs = [{**described(one.spec), "parameters": {BINARY_SIZE: one.data.nbytes}} for one in request.inputs]
    head = _ENCODER.encode({"inputs": inputs, "outputs": [_wanted(one) for one in request.outputs]})
    data = b"".join((head, *(one.data for one in request.inputs)))
    return PackedTensors(head_bytes=len(head), data=data, items=items_of(request.inputs[0]))


def _wanted(one: Wanted) -> dict[str, object]:
    return {"name": one.name, "parameters": {CLASSES: one.classes}} if one.classes else {"name": one.name}


def _answer(_: InferRequest, raw: bytes) -> InferAnswer:
    try:
        _, end = json.JSONDecoder().raw_decode(str(raw[:_SCANNED_BYTES], "latin-1"))
        told = msgspec.json.decode(raw[:end], type=_Answer)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise EngineError from error
    left, outputs = memoryview(raw)[end:], []
    for one in told.outputs:
        size = one.parameters.get(BINARY_SIZE, 0)
        outputs.append(_tensor(one, left[:size]))
        left = left[size:]
    return InferAnswer(outputs=tuple(outputs))


def _tensor(told: _Told, data: memoryview) -> Tensor:
    described_ = spec(told.name, told.datatype, *told.shape)
    if told.datatype is not Datatype.BYTES and prod(told.shape) * told.datatype.size_bytes != data.nbytes:
        raise EngineError
    return checked(described_, data)
