"""One run of many clients, gateways and stores, as plain data.

Recorded from outside (by each client) and from inside (by the limits store, the engines and the ledger). It knows
nothing of processes: the test fills in a ``History``; ``histories/rules`` judges it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.domain.tenancy.ledger import LedgerRow
from penstock.domain.tenancy.limits import Measure, MeterKind
from penstock.domain.tenancy.tenant import Scope


class End(StrEnum):
    """How a request ended for its client."""

    WHOLE = "whole"
    REPLAYED = "replayed"
    REFUSED = "refused"
    FAILED = "failed"
    LEFT = "left"
    CUT = "cut"


class Fault(StrEnum):
    GATEWAY_KILLED = "gateway killed"
    LIMITS_LOST = "limits store killed, back empty"
    LIMITS_FROZEN = "limits store frozen"
    LEDGER_LOST = "ledger killed"
    DISK_FULL = "spool disk full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as its client saw it; ``admitted`` is None if the client can't know. Times are Unix seconds."""

    name: str
    tenant: str
    gateway: str
    began_at: float
    ended_at: float
    end: End
    admitted: bool | None = None
    tokens: int = 0
    answer: str = ""
    once: str = ""
    """The idempotency key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """What a lease took from one meter."""

    meter: str
    kind: MeterKind
    measure: Measure
    amount: int
    capacity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    at: float
    lease: str
    takes: tuple[Take, ...]
    due: float = 0.0
    """When it frees itself, by the store's last word on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The store settled a lease; ``spent`` is what its budgets' meters were told."""

    at: float
    lease: str
    spent: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The store was told what a budget's meter counts, from the ledger."""

    at: float
    meter: str
    spent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hurt:
    fault: Fault
    at: float
    until: float
    gateway: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """The state at rest: each meter's count and holds, and the requests that engines still run."""

    spent: Mapping[str, int] = field(default_factory=dict)
    held: Mapping[str, int] = field(default_factory=dict)
    running: int = 0
    in_flight: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    round_s: float = 1.0
    """How late progress, deliveries and top-ups may be."""
    tokens_per_s: float = 0.0
    """How fast an engine makes a stream's tokens, at most."""
    gateways: int = 1


@dataclass(kw_only=True)
class History:
    """One run. ``scopes`` maps a tenant to all scopes with bounds on its requests."""

    bounds: Bounds = field(default_factory=Bounds)
    scopes: Mapping[str, tuple[Scope, ...]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    opened: list[Opened] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    counted: list[Counted] = field(default_factory=list)
    rows: list[LedgerRow] = field(default_factory=list)
    made: dict[str, int] = field(default_factory=dict)
    """The tokens that engines made of a request, in all attempts together."""
    hurts: list[Hurt] = field(default_factory=list)
    rest: Rest = field(default_factory=Rest)

    def during(self, fault: Fault) -> list[Hurt]:
        return [hurt for hurt in self.hurts if hurt.fault is fault]

    def killed_under(self, asked: Asked) -> bool:
        """Tell whether the request's gateway died while it ran, or so soon after it that its end may be unwritten."""
        after_s = self.bounds.round_s
        deaths = (hurt for hurt in self.during(Fault.GATEWAY_KILLED) if hurt.gateway == asked.gateway)
        return any(asked.began_at <= hurt.at <= asked.ended_at + after_s for hurt in deaths)
