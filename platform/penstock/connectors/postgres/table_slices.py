"""Decodes a stored routing table in slices, because the same event loop streams other callers' tokens (C12).

A table of ten thousand workers has two megabytes and takes 15 ms; no slice takes longer than a request's own work. A
thread would hold the interpreter lock throughout.
"""

import asyncio
from dataclasses import dataclass, fields

import msgspec

from penstock.domain.fleet.table import Route, RoutingTable, VersionEntry, WorkerEntry
from penstock.domain.serving.auto import Auto

SLICE = 500
"""Workers decoded per iteration of the event loop: less than a millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _RawVersion(VersionEntry):
    workers: tuple[msgspec.Raw, ...] = ()  # type: ignore[assignment]


class _RawTable(msgspec.Struct):
    number: int
    made_at: float
    routes: tuple[Route, ...] = ()
    versions: tuple[msgspec.Raw, ...] = ()
    autos: tuple[Auto, ...] = ()


_TABLE = msgspec.json.Decoder(_RawTable)
_VERSION = msgspec.json.Decoder(_RawVersion)
_WORKER = msgspec.json.Decoder(WorkerEntry)
_FIELDS = tuple(field.name for field in fields(VersionEntry) if field.name != "workers")


async def decode(data: bytes) -> RoutingTable:
    raw = _TABLE.decode(data)
    await asyncio.sleep(0)
    versions = [await _version(version) for version in raw.versions]
    return RoutingTable(
        number=raw.number, made_at=raw.made_at, routes=raw.routes, versions=tuple(versions), autos=raw.autos
    )


async def _version(text: msgspec.Raw) -> VersionEntry:
    raw = _VERSION.decode(text)
    workers: list[WorkerEntry] = []
    for begin in range(0, len(raw.workers), SLICE):
        await asyncio.sleep(0)
        workers += [_WORKER.decode(worker) for worker in raw.workers[begin : begin + SLICE]]
    return VersionEntry(workers=tuple(workers), **{name: getattr(raw, name) for name in _FIELDS})
