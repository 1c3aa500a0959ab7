"""Payloads: inputs, answers, files and events of tenants as sealed objects, outside of the database.

An object's name is ``<owner's kind>/<owner's id>[/<part>]``: ``file/file-1f…``, ``job/job_2a…/input``,
``batch/batch_3b…/7-12``. An object without its owner is an orphan, and swept. A name is written once: another attempt
writes another name.
"""

import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from penstock.domain.errors import InvalidField
from penstock.domain.ids import TenantId
from penstock.domain.jobs.ids import ObjectId

MOST_NAME_CHARS = 200
ROW_BYTES = 1024
"""Bytes that each row counts for among what a tenant keeps: a job, batch line, file, response, or piece of its events,
with its part of the indexes.
"""
_NAME = re.compile(r"[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+){1,3}")


def object_id(kind: str, owner: str, *parts: str | int) -> ObjectId:
    """Return the name of an owner's object; ``InvalidField`` for characters that no name has."""
    return checked("/".join((kind, owner, *map(str, parts))))


def owner_of(name: ObjectId) -> tuple[str, str]:
    """Return the kind and id of the object's owner."""
    kind, owner, *_ = name.split("/")
    return kind, owner


def checked(name: str) -> ObjectId:
    if len(name) > MOST_NAME_CHARS or not _NAME.fullmatch(name):
        raise InvalidField("this is no name of a stored object")
    return ObjectId(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Clear bytes of an object: rows hold it, never the bytes."""

    object: ObjectId
    at: int = 0
    size: int = 0


NO_EXTENT = Extent(object=ObjectId(""))


class Expired(NamedTuple):
    """An owner that is deleted or expired, and the objects that go first."""

    owner: str
    objects: tuple[ObjectId, ...]


class PayloadWriter(Protocol):
    """One object on its way. Leaving its block without ``commit`` leaves nothing."""

    async def write(self, data: bytes) -> None: ...

    async def commit(self) -> int:
        """Make the object visible, durably, and return its clear bytes. Raises ``Conflict`` if the name is taken."""
        ...


class PayloadStore(Protocol):
    """Sealed objects, read by the tenant that they were written for.

    Offsets and sizes are of clear bytes. Calls raise ``PayloadGone``, ``PayloadUnreadable``, ``StorageFull`` or
    ``StoreUnavailable``.
    """

    def writer(self, tenant: TenantId, name: ObjectId) -> AbstractAsyncContextManager[PayloadWriter]: ...

    def read(self, tenant: TenantId, name: ObjectId, at: int = 0, size: int | None = None) -> AsyncIterator[bytes]:
        """Yield the range in pieces of about a megabyte; it ends at the object's end."""
        ...

    async def put(self, tenant: TenantId, name: ObjectId, data: bytes) -> None: ...

    async def get(self, tenant: TenantId, name: ObjectId, at: int = 0, size: int | None = None) -> bytes: ...

    async def delete(self, name: ObjectId) -> None:
        """Delete the object's bytes, if there are any."""
        ...

    def names(self, before: float) -> AsyncIterator[tuple[ObjectId, ...]]:
        """Yield the objects last written before this time, in groups."""
        ...

    async def sweep(self, before: float) -> int:
        """Remove what crashed writers left before this time; return the number of such rests."""
        ...
