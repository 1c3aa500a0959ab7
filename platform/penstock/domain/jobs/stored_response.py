"""Responses kept for their tenant: the places of their bytes, and of the events of a background stream.

A background response's state is its job's; any other was complete when it was kept. No row holds a text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from penstock.domain.ids import TenantId
from penstock.domain.jobs.ids import ObjectId
from penstock.domain.jobs.payload import object_id
from penstock.domain.tenancy.ledger import LedgerRow

ResponseId = NewType("ResponseId", str)
PREFIX = "resp_"
KIND = "response"
"""The kind of a background response's job, and of the objects' owner."""
_OWNER_CHARS = 16


class ResponseStatus(StrEnum):
    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        return self not in (ResponseStatus.QUEUED, ResponseStatus.IN_PROGRESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """One kept response: ``object`` holds its beginning as it is shown while it waits, its input, and its body.

    The first part is empty unless it runs in the background; then the third is, since its job has the answer.
    """

    id: ResponseId
    tenant: TenantId
    object: ObjectId
    created_at: float
    expires_at: float
    input_at: int = 0
    """Where the input begins: a JSON list of items."""
    input_bytes: int = 0
    begin_bytes: int = 0
    body_at: int = 0
    body_bytes: int = 0
    is_background: bool = False
    keeps_events: bool = False
    answer_key: str = ""
    """The name of the answer's record under the caller's idempotency key, if it had one."""


Item = Mapping[str, object]
"""An output item's identity, without any text of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPiece:
    """Events of one attempt, together in one object: numbers ``first`` to ``last``.

    ``items`` and ``open`` say what a later attempt must know: output items begun so far, and the identity of those that
    are not done.
    """

    response: ResponseId
    epoch: int
    first: int
    last: int
    object: ObjectId
    size_bytes: int = 0
    items: int = 0
    open: Mapping[int, Item] = field(default_factory=dict)
    bill: LedgerRow | None = None
    """The attempt's ledger row if it is lost after this piece."""


FIRST_EVENT = 2
"""The number of a first attempt's first event, after ``response.created`` and ``response.queued``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What earlier attempts left: the next event's number, their output items, and those not done, by index."""

    number: int = FIRST_EVENT
    items: int = 0
    open: Mapping[int, Item] = field(default_factory=dict)


def object_of(response: ResponseId, *parts: str | int) -> ObjectId:
    """Return the name of a response's object; its id may hold what a caller chose, except for its last characters."""
    return object_id(KIND, response[-_OWNER_CHARS:], *parts)
