"""Batches in OpenAI's form: make one of an uploaded file, look at it, cancel it; and pause it, which is ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
from fastapi import FastAPI, Request, Response

from penstock.domain.errors import InvalidField, UnknownObject
from penstock.domain.jobs.batch import Batch, BatchState, LineFault
from penstock.domain.jobs.file import LEAST_KEPT_S, MOST_KEPT_S
from penstock.domain.jobs.ids import BatchId, FileId
from penstock.domain.serving.request import JSON_APIS, Api
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.deferred import shapes
from penstock.gateway.deferred.access import Access
from penstock.gateway.deferred.shapes import Paged
from penstock.gateway.openai import head

BATCHES = "/v1/batches"
ONE = f"{BATCHES}/{{batch}}"
PREFIX, FILE_PREFIX = "batch_", "file-"
REPLAYED = {"idempotency-replayed": "true"}
ANCHOR = "created_at"
"""OpenAI's only anchor of an expiry: the file's own creation."""


class _Expiry(msgspec.Struct, forbid_unknown_fields=True):
    anchor: str
    seconds: int


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: dict[str, str] | None = None
    output_expires_after: _Expiry | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBatch:
    input_file: FileId
    endpoint: Api
    window: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    output_keep_s: float = 0.0
    idempotency_key: str = ""


class Batches(Protocol):
    """Batches and files of other tenants raise ``UnknownObject``."""

    async def create(self, who: Principal, wish: NewBatch) -> tuple[Batch, bool]:
        """Also whether an earlier request under its idempotency key made it."""
        ...

    async def find(self, who: Principal, batch: BatchId) -> Batch: ...

    async def page(self, who: Principal, page: Paged) -> tuple[Sequence[Batch], bool]:
        """Return a page's batches, and whether there are more."""
        ...

    async def cancel(self, who: Principal, batch: BatchId) -> Batch:
        """Raises ``Conflict`` if the batch has ended otherwise."""
        ...

    async def pause(self, who: Principal, batch: BatchId) -> Batch: ...

    async def resume(self, who: Principal, batch: BatchId) -> Batch: ...


def add_batches(api: FastAPI, access: Access, batches: Batches) -> None:
    @api.post(BATCHES)
    async def create(request: Request) -> Response:
        who = access.caller(request)
        wish = _wish(await request.body(), head.idempotency_key(dict(request.headers.raw)))
        batch, is_repeated = await batches.create(who, wish)
        return shapes.answer(told(batch), headers=REPLAYED if is_repeated else None)

    @api.get(BATCHES)
    async def page(request: Request) -> Response:
        found, has_more = await batches.page(access.caller(request), shapes.paged(request.query_params))
        return shapes.listed([told(one) for one in found], has_more=has_more)

    @api.get(ONE)
    async def one(request: Request, batch: str) -> Response:
        return shapes.answer(told(await batches.find(access.caller(request), _named(batch))))

    for act in (batches.cancel, batches.pause, batches.resume):
        _add_act(api, access, act)


class _Act(Protocol):
    __name__: str

    async def __call__(self, who: Principal, batch: BatchId) -> Batch: ...


def _add_act(api: FastAPI, access: Access, act: _Act) -> None:
    @api.post(f"{ONE}/{act.__name__}")
    async def changed(request: Request, batch: str) -> Response:
        return shapes.answer(told(await act(access.caller(request), _named(batch))))


def _named(given: str) -> BatchId:
    return BatchId(shapes.named(given, PREFIX))


def _wish(raw: bytes, key: str) -> NewBatch:
    asked = shapes.body(raw, _Body)
    if asked.endpoint not in JSON_APIS:
        raise InvalidField(f"endpoint is one of {', '.join(JSON_APIS)}", param="endpoint")
    metadata = asked.metadata or {}
    shapes.check_metadata(metadata)
    return NewBatch(
        input_file=_file_id(asked.input_file_id),
        endpoint=Api(asked.endpoint),
        window=asked.completion_window,
        metadata=metadata,
        output_keep_s=_kept_s(asked.output_expires_after),
        idempotency_key=key,
    )


def _file_id(given: str) -> FileId:
    try:
        return FileId(shapes.named(given, FILE_PREFIX))
    except UnknownObject as error:
        raise UnknownObject("there is no such batch file", param="input_file_id") from error


def _kept_s(asked: _Expiry | None) -> float:
    if asked is None:
        return 0.0
    if asked.anchor != ANCHOR:
        raise InvalidField(f"anchor is {ANCHOR}", param="output_expires_after.anchor")
    if not LEAST_KEPT_S <= asked.seconds <= MOST_KEPT_S:
        raise InvalidField(
            f"seconds are from {LEAST_KEPT_S:.0f} to {MOST_KEPT_S:.0f}", param="output_expires_after.seconds"
        )
    return float(asked.seconds)


def told(batch: Batch) -> dict[str, object]:
    """Times are whole Unix seconds, null if they have not come."""
    times = {f"{state}_at": int(batch.at(state)) or None for state in BatchState if state is not BatchState.VALIDATING}
    prompt, output, counts = batch.tokens.prompt, batch.tokens.output, batch.counts
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "model": next(iter(batch.versions)) if len(batch.versions) == 1 else None,
        "versions": batch.versions,
        "errors": {"object": "list", "data": [_fault(one) for one in batch.faults]} if batch.faults else None,
        "input_file_id": batch.input_file,
        "completion_window": batch.window,
        "status": batch.state,
        "output_file_id": batch.output_file or None,
        "error_file_id": batch.error_file or None,
        "created_at": int(batch.created_at),
        "expires_at": int(batch.deadline_at),
        **times,
        "paused_at": int(batch.paused_at) or None,
        "reason": batch.reason or None,
        "request_counts": {"total": counts.total, "completed": counts.completed, "failed": counts.failed},
        "usage": {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": None},
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": None},
            "total_tokens": prompt + output,
        },
        "metadata": batch.metadata or None,
    }


def _fault(fault: LineFault) -> dict[str, object]:
    return {
        "code": fault.code,
        "message": fault.message,
        "param": fault.param or None,
        "line": fault.line or None,
    }
