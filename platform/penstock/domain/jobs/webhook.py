"""Webhooks after Standard Webhooks 1.0.0: a tenant's endpoints, the events told, each event's delivery to an endpoint.

Times are Unix seconds by the database's clock; zero means never.
"""

import base64
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from penstock.domain.ids import TenantId
from penstock.domain.jobs.ids import EndpointId, EventId

DeliveryId = NewType("DeliveryId", int)

MOST_TESTS, TESTS_S = 20, 60.0
"""Test events of a tenant in that many seconds: somebody tries a receiver by hand, each is a row and a delivery."""
MOST_ENDPOINTS = 16
"""Endpoints of a tenant: each may hold a connection of the senders', so one tenant can't hold all of them."""
MOST_KEPT = 10_000
"""Newest deliveries of an endpoint that can be listed and replayed: some megabytes of rows."""
MOST_DUE = 100_000
"""Deliveries that may wait for one endpoint: with more its receiver does not follow, and it is off."""
SECRET_BYTES = 32
"""Bytes of a signing secret; the specification asks for 24 to 64."""
KEPT_S = 30 * 86_400.0
"""Seconds that an ended delivery can be listed and replayed."""


class EventType(StrEnum):
    """What can be told, under OpenAI's names if it has one."""

    BATCH_COMPLETED = "batch.completed"
    BATCH_FAILED = "batch.failed"
    BATCH_EXPIRED = "batch.expired"
    BATCH_CANCELLED = "batch.cancelled"
    RESPONSE_COMPLETED = "response.completed"
    RESPONSE_FAILED = "response.failed"
    RESPONSE_CANCELLED = "response.cancelled"
    RESPONSE_INCOMPLETE = "response.incomplete"
    JOB_SUCCEEDED = "job.succeeded"
    JOB_FAILED = "job.failed"
    JOB_CANCELLED = "job.cancelled"
    BUDGET_THRESHOLD = "budget.threshold"
    WEBHOOK_DISABLED = "webhook.disabled"
    """Another endpoint of the tenant was turned off by the platform."""
    WEBHOOK_TEST = "webhook.test"
    """Sent to one endpoint at its owner's wish; nobody subscribes to it."""


ALL_EVENTS = "*"


class OffReason(StrEnum):
    OWNER = "owner"
    GONE = "gone"
    """It answered 410."""
    FAILING = "failing"
    """It failed every attempt of a delivery, and answered no other delivery meanwhile."""
    BACKLOG = "backlog"
    """More than ``MOST_DUE`` deliveries waited for it."""


class DeliveryState(StrEnum):
    DUE = "due"
    """It waits for ``next_at``."""
    SENDING = "sending"
    DELIVERED = "delivered"
    FAILED = "failed"


class SendError(StrEnum):
    """Why an attempt has no success, as a code: a receiver's words are kept nowhere."""

    STATUS = "status"
    """An answer other than 2xx; redirects are not followed."""
    TIMEOUT = "timeout"
    ADDRESS_REFUSED = "address_refused"
    """The name leads to an address that callbacks may not reach."""
    NAME_NOT_FOUND = "name_not_found"
    CONNECTION = "connection"
    TLS = "tls"
    ANSWER = "answer"
    """What came is no HTTP answer."""
    PROXY = "proxy"
    SECRET = "secret"
    """The signing secret can't be opened: the platform's key was exchanged twice meanwhile."""
    ENDPOINT_OFF = "endpoint_off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    id: EndpointId
    tenant: TenantId
    url: str
    events: tuple[str, ...]
    """Types of events; ``*`` is all, empty is only what names this endpoint."""
    is_on: bool = True
    off_reason: str = ""
    failing_since: float = 0.0
    previous_until: float = 0.0
    """The end of the time in which the former secret signs, too."""
    created_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointChange:
    """What an owner changes; None stays as it is."""

    url: str | None = None
    events: tuple[str, ...] | None = None
    is_on: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    id: EventId
    """The ``webhook-id`` of all its deliveries, in every attempt."""
    type: str
    object: str
    """The id of what it is about."""
    created_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    id: DeliveryId
    event: Event
    endpoint: EndpointId
    state: DeliveryState
    attempt: int = 0
    """Attempts that were begun."""
    next_at: float = 0.0
    last_status: int = 0
    last_error: str = ""
    ended_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedDelivery:
    """A delivery that this sender holds, under an epoch: a sender that lost it can't end it."""

    id: DeliveryId
    epoch: int
    attempt: int
    """This attempt's number, from 1."""
    event: Event
    endpoint: EndpointId
    tenant: TenantId
    url: str
    secrets: tuple[bytes, ...]
    """The keys that sign, newest first; empty if none can be opened."""

    def __repr__(self) -> str:
        return f"ClaimedDelivery({self.id}, {self.epoch})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of one attempt: the receiver's status, or why there is none."""

    status: int = 0
    error: SendError | None = None
    retry_after_s: float | None = None


class Verdict(StrEnum):
    """The outcome of an attempt: the label of its metric."""

    DELIVERED = "delivered"
    RETRIED = "retried"
    FAILED = "failed"
    """It was the last attempt of the schedule."""
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """What follows an attempt: the next one after ``delay_s``, and silence towards the endpoint for ``hold_s``."""

    verdict: Verdict
    delay_s: float = 0.0
    hold_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedAttempt:
    id: DeliveryId
    epoch: int
    answer: Answer
    next: Next


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingEndpoint:
    """An endpoint with a delivery due now, ``late_s`` ago for the oldest."""

    endpoint: EndpointId
    tenant: TenantId
    late_s: float
    is_failing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedOff:
    endpoint: EndpointId
    tenant: TenantId
    reason: OffReason


def secret_text(secret: bytes) -> str:
    """Return the secret in the specification's form, as its owner gets it, once."""
    return "whsec_" + base64.b64encode(secret).decode()


_THRESHOLD = re.compile(r"(.+):spend:(.+)/(\d+)@(\d+)")


def data_of(event: Event) -> dict[str, object]:
    """Return the body's ``data``: the id, and of a budget's threshold what the id says."""
    found = _THRESHOLD.fullmatch(event.object) if event.type == EventType.BUDGET_THRESHOLD else None
    if found is None:
        return {"id": event.object}
    scope, window, cap, percent = found.groups()
    return {"id": event.object, "scope": scope, "window": window, "cap_micro_usd": int(cap), "percent": int(percent)}
