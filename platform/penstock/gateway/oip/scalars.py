"""Options of a request, sent as parameters or as one-element inputs. Pure."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import isfinite

import msgspec

from penstock.domain.errors import InvalidField
from penstock.domain.models.tensors import Datatype, Tensor, elements_of
from penstock.domain.models.tensors import unpacked as numbers_of
from penstock.gateway.oip.nouns import CONTENT_TYPE
from penstock.gateway.openai.head import MAX_DEADLINE_S

MAX_ELEMENTS = 64
"""More values of an option, such as stop texts, than any caller needs."""
TIMEOUT, PRIORITY = "timeout", "priority"
_OF_THE_PROTOCOL = frozenset({TIMEOUT, PRIORITY, CONTENT_TYPE, "triton_enable_empty_final_response"})
"""Parameters for the server and not for the model; a stream's last message is always sent, empty or not."""
_SEQUENCES = "sequence_"
_MICROSECONDS = 1_000_000


def timeout_s(parameters: Mapping[str, object]) -> float:
    """The caller's ``timeout`` (Triton's microseconds) in seconds; 0 without one."""
    given = parameters.get(TIMEOUT, 0)
    if type(given) is not int or not 0 <= given <= MAX_DEADLINE_S * _MICROSECONDS:
        most = int(MAX_DEADLINE_S) * _MICROSECONDS
        raise InvalidField(f"timeout must be whole microseconds from 1 to {most}, or 0 for none", param=TIMEOUT)
    return given / _MICROSECONDS


def soonest(*seconds: float) -> float:
    """0 means none, also as the result."""
    return min((one for one in seconds if one), default=0.0)


def of_model(parameters: Mapping[str, object]) -> dict[str, object]:
    if parameters.get(PRIORITY, 0) != 0:
        raise InvalidField("priority is not supported: the key's plan sets it; leave it out", param=PRIORITY)
    for name, value in parameters.items():
        if name.startswith(_SEQUENCES):
            raise InvalidField(f"{name} is not supported: requests are independent of each other", param=name)
        _check_finite(value, name)
    return {name: value for name, value in parameters.items() if name not in _OF_THE_PROTOCOL}


def options(
    parameters: Mapping[str, object], inputs: Iterable[Tensor], taken: frozenset[str], tensor: str = ""
) -> dict[str, object]:
    """Raises ``InvalidField`` for options not ``taken``; ``tensor`` is the model's own input, which the error lists,
    too.
    """
    found = {_known(name, taken, "parameter"): value for name, value in parameters.items()}
    for one in inputs:
        found[_known(one.spec.name, taken, "input", tensor)] = _value(one)
    return found


def _known(name: str, taken: frozenset[str], what: str, *more: str) -> str:
    if name not in taken:
        known = ", ".join([*more, *sorted(taken)])
        remedy = f"it takes {known}" if known else "leave it out"
        raise InvalidField(f"this model takes no {what} {name[:80]!r}: {remedy}", param=name)
    return name


def _value(tensor: Tensor) -> object:
    """Return an input's one element, or its list of several texts."""
    name = tensor.spec.name
    if not 1 <= tensor.elements <= MAX_ELEMENTS:
        raise InvalidField(f"{name} must have from 1 to {MAX_ELEMENTS} elements", param=name)
    values: list[object] = list(texts_of(tensor) if tensor.spec.datatype is Datatype.BYTES else numbers_of(tensor))
    if len(values) > 1 and tensor.spec.datatype is not Datatype.BYTES:
        raise InvalidField(f"{name} must have one element", param=name)
    _check_finite(values[0], name)
    return values[0] if len(values) == 1 else values


def texts_of(tensor: Tensor) -> list[str]:
    name = tensor.spec.name
    if tensor.spec.datatype is not Datatype.BYTES:
        raise InvalidField(f"{name} must be BYTES: text in UTF-8", param=name)
    try:
        return [str(element, "utf-8") for element in elements_of(tensor)]
    except UnicodeDecodeError as error:
        raise InvalidField(f"{name} holds bytes that are no UTF-8", param=name) from error


def object_of(value: object, name: str) -> dict[str, object]:
    with suppress(msgspec.MsgspecError, TypeError):
        return msgspec.json.decode(value, type=dict[str, object])  # type: ignore[call-overload, no-any-return]
    raise InvalidField(f"{name} must be a JSON object in a text", param=name)


def number_of(value: object, name: str) -> object:
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value, type=int | float)
        except msgspec.MsgspecError as error:
            raise InvalidField(f"{name} must be a number", param=name) from error
    _check_finite(value, name)
    return value


def flag_of(value: object, name: str) -> bool:
    if value not in (True, False, "true", "false"):
        raise InvalidField(f"{name} must be true or false", param=name)
    return value in (True, "true")


def _check_finite(value: object, name: str) -> None:
    """Refuse NaN and infinity, which JSON can't express."""
    if isinstance(value, float) and not isfinite(value):
        raise InvalidField(f"{name} must be a finite number", param=name)
