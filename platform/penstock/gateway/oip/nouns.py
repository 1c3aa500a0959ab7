"""The protocol's request and answer, independent of the wire. Pure."""

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from itertools import islice
from math import prod

from penstock.domain.errors import InvalidField
from penstock.domain.models.tensors import AS_BINARY, BINARY_SIZE, CLASSES, MAX_RANK, Datatype, Tensor, TensorSpec

MAX_TENSORS = 64
MAX_NAME_CHARS = 256
MAX_PARAMETERS = 256
MAX_ITEMS = 2048
"""The most prompts of a request in any other API."""

MAX_ELEMENTS = 8192
"""The most elements of a request's ``BYTES`` tensors: iterating over them takes 2 ms. Numeric tensors have no such
bound.
"""
MAX_SIZE = (1 << 63) - 1
"""The largest dimension that gRPC can encode."""
SHARED_MEMORY = "shared_memory"
CONTENT_TYPE = "content_type"
_OF_INPUTS, _OF_OUTPUTS = frozenset({BINARY_SIZE, CONTENT_TYPE}), frozenset({AS_BINARY, CLASSES})
_AS_IT_IS, _TEXT = frozenset({"np", "raw"}), "str"
"""MLServer's content types that need no conversion here: numbers or bytes unchanged, UTF-8."""

Parameter = bool | int | float | str
Parameters = Mapping[str, Parameter]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A requested output; only REST sets ``is_binary``."""

    name: str
    is_binary: bool = False
    classes: int = 0
    """The number of highest values to return with labels, instead of all values; 0 for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferRequest:
    """A request; without ``outputs`` all are returned, in binary form if ``is_binary``."""

    id: str = ""
    model: str = ""
    """The model's name, if a REST body repeats the path's, as KServe's clients do."""
    parameters: Parameters = field(default_factory=dict)
    inputs: tuple[Tensor, ...]
    outputs: tuple[Wanted, ...] = ()
    is_binary: bool = False

    def __post_init__(self) -> None:
        """Refuse excessive or ambiguous requests."""
        names = _names("inputs", [tensor.spec.name for tensor in self.inputs])
        wanted = _names("outputs", [one.name for one in self.outputs])
        if not names:
            raise InvalidField("inputs must hold at least one tensor", param="inputs")
        check_parameters(self.parameters)
        if CONTENT_TYPE in self.parameters:
            for tensor in self.inputs:
                _check_content("parameters", tensor.spec, self.parameters)
        if max(map(len, (self.id, *names, *wanted))) > MAX_NAME_CHARS:
            raise InvalidField(f"a name or id is longer than {MAX_NAME_CHARS} characters")

    def input(self, name: str) -> Tensor | None:
        return next((tensor for tensor in self.inputs if tensor.spec.name == name), None)

    @property
    def classified(self) -> dict[str, int]:
        return {one.name: one.classes for one in self.outputs if one.classes}

    def wants(self, name: str) -> bool:
        return not self.outputs or any(one.name == name for one in self.outputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferAnswer:
    outputs: tuple[Tensor, ...]
    parameters: Parameters = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    model: str
    version: str
    id: str = ""


def _names(what: str, named: list[str]) -> list[str]:
    if len(named) > MAX_TENSORS:
        raise InvalidField(f"{what} holds more than {MAX_TENSORS} tensors", param=what)
    if len(named) > 1 and len(set(named)) != len(named):
        raise InvalidField(f"{what} names a tensor twice", param=what)
    return named


def datatype_of(text: str, name: str) -> Datatype:
    try:
        return Datatype(text)
    except ValueError as error:
        known = ", ".join(Datatype)
        raise InvalidField(f"{name}: {text[:40]!r} is no datatype; there are {known}", param=name) from error


def spec(name: str, datatype: Datatype, *shape: int) -> TensorSpec:
    return TensorSpec(name=name, datatype=datatype, shape=shape)


def described_as(name: str, datatype: str, shape: Iterable[int]) -> TensorSpec:
    """Raises ``InvalidField`` for sizes out of bounds."""
    found = TensorSpec(name=name, datatype=datatype_of(datatype, name), shape=tuple(islice(shape, MAX_RANK + 1)))
    if len(found.shape) > MAX_RANK:
        raise InvalidField(f"{name} has more than {MAX_RANK} dimensions", param=name)
    if found.shape and not 0 <= min(found.shape) <= max(found.shape) <= MAX_SIZE:
        raise InvalidField(f"{name} has a dimension below 0, or beyond any memory", param=name)
    return found


def described_all(given: Sequence[tuple[str, str, Iterable[int]]]) -> list[TensorSpec]:
    """Name, datatype, shape, before any data is read. Raises ``InvalidField`` for too many."""
    if len(given) > MAX_TENSORS:
        raise InvalidField(f"inputs holds more than {MAX_TENSORS} tensors", param="inputs")
    found = [described_as(*one) for one in given]
    walked = 0
    for spec in found:
        walked += prod(spec.shape) if spec.datatype is Datatype.BYTES else 0
        if walked > MAX_ELEMENTS:
            what = f"{spec.name}: inputs hold more than {MAX_ELEMENTS} elements of BYTES: send several requests"
            raise InvalidField(what, param=spec.name)
    return found


def wanted(name: str, parameters: Parameters) -> Wanted:
    _check_names(name, parameters, "an output", _OF_OUTPUTS, "take")
    classes = parameters.get(CLASSES, 0)
    if type(classes) is not int or not 0 <= classes <= MAX_ELEMENTS:
        raise InvalidField(f"{name}: {CLASSES} must be a whole number from 0 to {MAX_ELEMENTS}", param=name)
    return Wanted(name=name, is_binary=parameters.get(AS_BINARY) is True, classes=classes)


def check_input(spec: TensorSpec, parameters: Parameters) -> None:
    """Refuses shared memory and other content types."""
    if parameters:
        _check_names(spec.name, parameters, "an input", _OF_INPUTS, "send")
        _check_content(spec.name, spec, parameters)


def _check_content(where: str, spec: TensorSpec, parameters: Parameters) -> None:
    """Accept only types that need no conversion; ``base64``, ``pd`` and others would change the value."""
    said = parameters.get(CONTENT_TYPE)
    if said is None or said in _AS_IT_IS or (said == _TEXT and spec.datatype is Datatype.BYTES):
        return
    known = "np, raw, or str for BYTES"
    what = f"{CONTENT_TYPE} {str(said)[:40]!r} of {spec.name}, which is {spec.datatype}, is not read here"
    raise InvalidField(f"{what}: leave it out, or say {known}", param=CONTENT_TYPE if where == "parameters" else where)


def _check_names(name: str, parameters: Iterable[str], what: str, known: frozenset[str], instead: str) -> None:
    for parameter in parameters:
        if parameter.startswith(SHARED_MEMORY):
            raise InvalidField(f"{name}: memory can't be shared with this server: {instead} the data", param=name)
        if parameter not in known:
            told = ", ".join(sorted(known))
            raise InvalidField(f"{name}: {what} takes no {parameter[:80]!r}; it takes {told}", param=name)


def check_parameters(*given: Sized) -> None:
    if sum(map(len, given)) > MAX_PARAMETERS:
        raise InvalidField(f"more than {MAX_PARAMETERS} parameters", param="parameters")


def check_batch(tensor: Tensor) -> int:
    """Items in a tensor of shape ``[n]`` or ``[n, 1]``, before its data is read."""
    shape, name = tensor.spec.shape, tensor.spec.name
    if len(shape) not in (1, 2) or (len(shape) == 2 and shape[1] != 1):  # noqa: PLR2004  a batch, and one of each
        raise InvalidField(f"{name} must have the shape [n] or [n, 1]", param=name)
    if not shape[0]:
        raise InvalidField(f"{name} is an empty batch", param=name)
    if shape[0] > MAX_ITEMS:
        raise InvalidField(f"{name} holds {shape[0]} items; one request may have {MAX_ITEMS}", param=name)
    return shape[0]


def check_outputs(request: InferRequest, offered: tuple[TensorSpec, ...], *, has_classes: bool) -> None:
    names = [one.name for one in offered]
    for wanted in request.outputs:
        if wanted.name not in names:
            raise InvalidField(f"there is no output {wanted.name!r}; there are {', '.join(names)}", param="outputs")
        if wanted.classes and not has_classes:
            raise InvalidField(f"{wanted.name} has no classes: this model takes no {CLASSES}", param=wanted.name)
