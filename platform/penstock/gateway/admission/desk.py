"""Opens the one lease of a request: deadline, the plan's bounds, the concurrency slot (A7, B2).

deadline = min(what the client asked for, what the plan allows, what the version's SLO tier gives)

An explicit wish beyond the plan's output bound is refused, so that nobody gets a shorter answer than asked for without
knowing; a silent request is bounded by the plan. Whether prompt and output fit the model's context is preprocessing's
question, and which worker takes it is routing's: neither is asked here.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from penstock.domain.errors import DeadlineUnreachable, InvalidField
from penstock.domain.lease import Lease, Settlement
from penstock.domain.model import Tier
from penstock.domain.request import Api, InferenceRequest, Prepared
from penstock.domain.table import VersionEntry
from penstock.domain.tenant import Principal
from penstock.gateway.admission.limiter import ConcurrencyLimiter

OUTPUT_FIELD: Mapping[Api, str] = {
    Api.CHAT: "max_completion_tokens",
    Api.COMPLETIONS: "max_tokens",
    Api.RESPONSES: "max_output_tokens",
    Api.MESSAGES: "max_tokens",
}
"""Where each API says how long one sequence may become."""


class Applicant(Protocol):
    """What this room needs of a call: who asks for what, of which version. It may bound the request's output."""

    request: InferenceRequest

    @property
    def principal(self) -> Principal:
        """Who asks."""
        ...

    @property
    def version(self) -> VersionEntry | None:
        """What serves it; set before admission."""
        ...


class Desk:
    """Implements the pipeline's ``Admission``."""

    def __init__(
        self,
        *,
        limiter: ConcurrencyLimiter,
        default_deadline_s: Mapping[Tier, float],
        now: Callable[[], float],
        in_flight: Callable[[str, int], None],
    ) -> None:
        """Take each tier's deadline in seconds, monotonic time, and a counter called with a model's name and ±1."""
        self._limiter = limiter
        self._default_deadline_s = default_deadline_s
        self._now = now
        self._in_flight = in_flight

    def admit(self, call: Applicant, prepared: Prepared) -> Lease:
        """Open the request's lease, or raise ``DeadlineUnreachable``, ``InvalidField`` or ``OverLimit``."""
        del prepared  # token limits and budgets will ask for it
        version = call.version
        assert version is not None  # noqa: S101  the pipeline resolves first
        plan = call.principal.plan
        now = self._now()
        deadline_at = call.request.arrived_at + self._deadline_s(call.request, plan.deadline_s, version.tier)
        if deadline_at <= now:
            raise DeadlineUnreachable("the deadline passed before the request could start", retry_after_s=1.0)
        call.request = bounded(call.request, plan.max_output_tokens)
        return self._open(call.principal, version, now, deadline_at)

    def _deadline_s(self, request: InferenceRequest, plan_s: float, tier: Tier) -> float:
        return min(s for s in (request.deadline_s, plan_s, self._default_deadline_s[tier]) if s > 0)

    def _open(self, principal: Principal, version: VersionEntry, now: float, deadline_at: float) -> Lease:
        tenant = principal.tenant
        model = version.id.partition("@")[0]
        self._limiter.enter(tenant, principal.plan.max_concurrent)
        self._in_flight(model, 1)

        def settle(end: Settlement) -> None:
            self._limiter.leave(tenant, end.held_s)
            self._in_flight(model, -1)

        return Lease(opened_at=now, deadline_at=deadline_at, on_settle=settle)


def bounded(request: InferenceRequest, most_tokens: int) -> InferenceRequest:
    """Return the request within the plan's bound (0 is none), or raise ``InvalidField`` where it asks for more."""
    if not most_tokens or request.api is Api.EMBEDDINGS:
        return request
    field = OUTPUT_FIELD[request.api]
    if request.max_output_tokens > most_tokens:
        raise InvalidField(f"this plan allows {most_tokens} output tokens a request, all choices together", param=field)
    if request.max_output_tokens:
        return request
    n = request.body.get("n")
    sequences = n if isinstance(n, int) else 1
    each = max(1, most_tokens // sequences)
    return replace(request, body={**request.body, field: each}, max_output_tokens=each * sequences)
