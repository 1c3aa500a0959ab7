"""Preprocessing in a child process: its frames, and refusals from the child.

A large body takes milliseconds per mebibyte to decode, check, render and tokenise under the interpreter lock, which
would delay every stream of the process.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import msgspec

from penstock.domain import errors
from penstock.domain.errors import MalformedBody, PenstockError
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.serving.request import InferenceRequest, Prepared, Sealed
from penstock.domain.tenancy.tenant import Principal

DONE, REFUSED = b"+", b"-"


class Offload(Protocol):
    async def ask(self, who: str, pieces: Sequence[bytes]) -> bytes:
        """``Overloaded`` if all children are busy, ``EOFError`` if the child died."""
        ...


class Preparing(Protocol):
    async def prepare(self, request: InferenceRequest, version: VersionEntry, principal: Principal) -> Prepared:
        """Return the prompt's counts and hashes; raises ``BadRequest``."""
        ...


class _Refusal(msgspec.Struct):
    """``kind`` is the error's class name, empty for an internal fault."""

    kind: str
    message: str
    param: str | None = None
    retry_after_s: float | None = None
    reason: str | None = None


class _PrepareJob(msgspec.Struct):
    request: InferenceRequest
    version: VersionEntry
    principal: Principal


def unsealed(value: object) -> msgspec.Raw:
    """Return a sealed field's JSON, as msgspec's encoder hook."""
    if isinstance(value, Sealed):
        return msgspec.Raw(value.json)
    raise NotImplementedError


_ENCODER = msgspec.json.Encoder(enc_hook=unsealed)
_ASKED = msgspec.json.Decoder(_PrepareJob)
_PREPARED = msgspec.json.Decoder(Prepared)
_REFUSAL = msgspec.json.Decoder(_Refusal)


def refusal(error: Exception) -> bytes:
    """A foreign error is named only by its class, since its message may hold a prompt. A ``RecursionError`` is the
    body's fault: only the caller's nesting causes it in a child.
    """
    if isinstance(error, RecursionError):
        error = MalformedBody("the body holds JSON that is nested too deep")
    if isinstance(error, PenstockError):
        told = _Refusal(type(error).__name__, error.message, error.param, error.retry_after_s, error.reason)
    else:
        told = _Refusal("", type(error).__name__)
    return REFUSED + _ENCODER.encode(told)


def result(answer: bytes) -> memoryview:
    if answer[:1] == DONE:
        return memoryview(answer)[1:]
    told = _REFUSAL.decode(memoryview(answer)[1:])
    kind = getattr(errors, told.kind, None) if told.kind else None
    if kind is None:
        raise RuntimeError(f"a child process failed with {told.message}")
    raise kind(told.message, param=told.param, retry_after_s=told.retry_after_s, reason=told.reason)


class OffloadedPreprocessor:
    """Small requests here, large ones in a child, unless the version counts items."""

    def __init__(self, here: Preparing, elsewhere: Offload, *, task: bytes) -> None:
        self._here, self._elsewhere, self._task = here, elsewhere, task

    async def prepare(self, request: InferenceRequest, version: VersionEntry, principal: Principal) -> Prepared:
        if not request.is_large or version.counts_by_item:
            return await self._here.prepare(request, version, principal)
        asked = _PrepareJob(request, replace(version, workers=()), principal)
        answer = await self._elsewhere.ask(principal.tenant, (self._task, _ENCODER.encode(asked)))
        return _PREPARED.decode(result(answer))


async def prepared(here: Preparing, frame: memoryview) -> Sequence[bytes]:
    asked = _ASKED.decode(frame)
    found = await here.prepare(replace(asked.request, digest=""), asked.version, asked.principal)
    return (DONE, _ENCODER.encode(found))
