"""The Open Inference Protocol between gateway and worker: a JSON header and each tensor's bytes.

Source: Open Inference Protocol, REST, with the binary tensor data extension. Bytes are copied only once, into the
computed tensors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import torch

from penstock.domain.errors import EngineError, InvalidField, MalformedBody
from penstock.domain.models.model import HandlerSettings
from penstock.domain.models.tensors import (
    BINARY_SIZE,
    CLASSES,
    Datatype,
    Tensor,
    TensorSpec,
    checked,
    elements_of,
    joined,
)
from penstock.worker.engines.torch.declared import DATATYPES, DTYPES
from penstock.worker.engines.torch.handler import Features, Given


class _Tensor(msgspec.Struct):
    name: str
    shape: list[int]
    datatype: Datatype
    parameters: dict[str, object] = {}


class _Wanted(msgspec.Struct):
    name: str
    parameters: dict[str, object] = {}


class _Asked(msgspec.Struct):
    inputs: list[_Tensor]
    outputs: list[_Wanted] = []


class Request(msgspec.Struct, frozen=True):
    items: list[Given]
    outputs: tuple[str, ...]
    classes: dict[str, int] = {}
    """The number of highest values with labels to return, by output."""


def read(body: bytes, head_length: int, settings: HandlerSettings) -> Request:
    """Raises ``BadRequest`` that names the faulty tensor."""
    whole = memoryview(body)
    head, rest = whole[:head_length], whole[head_length:]
    try:
        asked = msgspec.json.decode(head, type=_Asked)
    except msgspec.ValidationError as error:
        raise InvalidField(str(error)[:200]) from error
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise MalformedBody from error
    tensors = _tensors(asked.inputs, rest)
    _check(tensors, settings)
    known = [one.name for one in settings.outputs]
    outputs = tuple(one.name[:64] for one in asked.outputs)
    for name in outputs:
        if name not in known:
            raise InvalidField(f"there is no output {name!r}; there are {', '.join(known)}", param=name)
    return Request(_items(tensors), outputs, _classes(asked.outputs))


def _classes(wanted: Sequence[_Wanted]) -> dict[str, int]:
    found = {one.name: one.parameters.get(CLASSES) for one in wanted}
    return {name: count for name, count in found.items() if isinstance(count, int) and count > 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    outputs: Sequence[str]
    classes: Mapping[str, int] = field(default_factory=dict)
    labels: Sequence[str] = ()
    finite: str = ""
    """The output in which a NaN or an infinity is an error."""


def write(version: str, form: Form, rows: Sequence[Features]) -> tuple[bytes, int]:
    """The body and the length of its JSON header; raises ``EngineError`` for rows that cannot be encoded."""
    described, parts = [], []
    for name in form.outputs:
        stacked = _stacked([row.get(name) for row in rows])
        if name == form.finite and not bool(torch.isfinite(stacked).all()):
            raise EngineError("the model's result for this input is not a finite number")
        datatype, shape = DATATYPES[stacked.dtype], list(stacked.shape)
        if name in form.classes:
            datatype, (part, shape) = Datatype.BYTES, ranked(stacked, form.classes[name], form.labels)
        else:
            plain = stacked.view(torch.int16) if datatype is Datatype.BF16 else stacked  # numpy has no bfloat16
            part = plain.numpy().tobytes()
        parts.append(part)
        parameters = {BINARY_SIZE: len(part)}
        described.append({"name": name, "datatype": datatype, "shape": shape, "parameters": parameters})
    head = msgspec.json.encode({"model_name": version, "model_version": version, "outputs": described})
    return b"".join((head, *parts)), len(head)


def _stacked(rows: Sequence[torch.Tensor | None]) -> torch.Tensor:
    """Raises ``EngineError`` if an item lacks the output or differs in kind."""
    found = [row for row in rows if row is not None]
    kinds = {(row.dtype, row.shape) for row in found}
    if len(found) != len(rows) or len(kinds) != 1 or found[0].dtype not in DATATYPES:
        raise EngineError("the model's outputs for these inputs are missing or differ in datatype or shape")
    return torch.stack(found).contiguous()


def _tensors(described: Sequence[_Tensor], rest: memoryview) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for one in described:
        spec = TensorSpec(name=one.name[:64], datatype=one.datatype, shape=tuple(one.shape))
        size = one.parameters.get(BINARY_SIZE)
        if type(size) is not int or not 0 <= size <= len(rest):
            raise InvalidField(f"{spec.name}: {BINARY_SIZE} must be the size of its data in the body", param=spec.name)
        if spec.name in found:
            raise InvalidField(f"{spec.name} is given twice", param=spec.name)
        data, rest = rest[:size], rest[size:]
        found[spec.name] = checked(spec, data)
    if len(rest):
        raise MalformedBody("the body has more bytes than its tensors' sizes add up to")
    return found


def _check(tensors: Mapping[str, Tensor], settings: HandlerSettings) -> None:
    known = {one.name: one for one in settings.inputs}
    for name, tensor in tensors.items():
        if name not in known:
            raise InvalidField(f"there is no input {name!r}; there are {', '.join(sorted(known))}", param=name)
        if not known[name].takes(tensor.spec):
            wanted, given = known[name], tensor.spec
            raise InvalidField(
                f"{name} must be {wanted.datatype} {list(wanted.shape)}, not {given.datatype} {list(given.shape)}",
                param=name,
            )
        if 0 in tensor.spec.shape:
            raise InvalidField(f"{name} is empty: its shape is {list(tensor.spec.shape)}", param=name)
    counts = {tensor.spec.shape[0] if tensor.spec.shape else 0 for tensor in tensors.values()}
    if len(counts) != 1 or counts == {0}:
        raise InvalidField("inputs must hold the same number of items, at least one")


def _items(tensors: Mapping[str, Tensor]) -> list[Given]:
    """Return a bytes element per row if that is the only input, else tensors by name."""
    if len(tensors) == 1:
        (tensor,) = tensors.values()
        if tensor.spec.datatype is Datatype.BYTES:
            return [bytes(one) for one in elements_of(tensor)]
    whole = {name: _as_torch(tensor) for name, tensor in tensors.items()}
    count = len(next(iter(whole.values())))
    return [{name: one[i] for name, one in whole.items()} for i in range(count)]


def _as_torch(tensor: Tensor) -> torch.Tensor:
    dtype = DTYPES.get(tensor.spec.datatype)
    if dtype is None:
        raise InvalidField(f"{tensor.spec.name}: BYTES can't be given beside other inputs", param=tensor.spec.name)
    return torch.frombuffer(bytearray(tensor.data), dtype=dtype).reshape(tensor.spec.shape)


def ranked(rows: torch.Tensor, classes: int, labels: Sequence[str]) -> tuple[bytes, list[int]]:
    """Elements of ``BYTES`` and their shape: ``value:index[:label]``, highest first, as in Triton's classification
    extension; of equal values the first listed. ``rows`` has one item per row. Labels are used only if each value
    has one.
    """
    is_float = rows.is_floating_point()
    flat = rows.reshape(len(rows), -1).to(torch.float64 if is_float else torch.int64)
    count = min(classes, flat.shape[1])
    found = flat.sort(dim=1, descending=True, stable=True)
    named, form = labels if len(labels) == flat.shape[1] else (), "{:f}:{}" if is_float else "{:d}:{}"
    told = [
        form.format(value, index) + (f":{named[index]}" if named else "")
        for row, places in zip(found.values[:, :count].tolist(), found.indices[:, :count].tolist(), strict=True)
        for value, index in zip(row, places, strict=True)
    ]
    return joined(one.encode() for one in told), [len(rows), count]
