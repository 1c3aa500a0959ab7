"""Opens a request's only lease: its deadline, the plan's bounds, the reservation (A7, B2, B3).

The deadline is the earliest of the client's (from arrival), the plan's and the SLO tier's (from the end of the upload).
A request without a deadline of its own, unless it is batch work, waits for the engine at most its tier's queue timeout.

Explicit output above the plan's bound is refused, not shortened.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from penstock.domain.clock import Clock
from penstock.domain.errors import DeadlineInQueue, ExceedsEngine, InvalidField
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.models.model import Tier
from penstock.domain.outcome import Stage
from penstock.domain.serving.request import Api, InferenceRequest
from penstock.domain.serving.slo import SloTier
from penstock.domain.tenancy.cost import Cost, most_sequences
from penstock.domain.tenancy.ledger import Opening
from penstock.domain.tenancy.tenant import OverQuota, Priority
from penstock.gateway.admission.degrade import OUTPUT_FIELD
from penstock.gateway.admission.reservations import Reservation, ReservationRequest, Reservations
from penstock.gateway.calls.call import Admitted, Call, Chosen, Due
from penstock.gateway.calls.lease import Lease, Settlement


class _Reserved(NamedTuple):
    call: Admitted
    reservation: Reservation
    model: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AdmissionController:
    reservations: Reservations
    tiers: Mapping[Tier, SloTier]
    clock: Clock
    in_flight: Callable[[str, int], None]
    _running: dict[Lease, Admitted] = field(default_factory=dict)
    _reserved: dict[Lease, _Reserved] = field(default_factory=dict)

    def due(self, call: Chosen) -> Due:
        tier = self.tiers[call.slo]
        asked_at = call.request.arrived_at + (call.request.deadline_s or math.inf)
        ours_at = call.received_at + min(s for s in (call.principal.plan.deadline_s, tier.deadline_s) if s > 0)
        return Due(min(asked_at, ours_at), asked_at < ours_at, tier.pace)

    def lease(self, call: Chosen, due: Due) -> Admitted:
        now = self.clock.monotonic()
        if due.at <= now:
            raise DeadlineInQueue("the deadline passed before the request could start")
        request = within_context(bounded(call.request, call.principal.plan.max_output_tokens), call)
        start_by = self._start_by(call, is_own=due.is_own)
        promise = self.tiers[call.slo].timed
        lease = Lease(opened_at=now, deadline_at=due.at, start_by=start_by, promise=promise, owner=self)
        admitted = call.admitted(request, due, lease)
        check_sequences(admitted.cost, call.version)
        return admitted

    async def reserve(self, call: Admitted) -> None:
        reservation = await self.reservations.open(self._claim(call), call.lease)
        model = call.version.id.partition("@")[0]
        self._reserved[call.lease] = _Reserved(call, reservation, model)
        self._running[call.lease] = call
        self.in_flight(model, 1)

    def move(self, call: Admitted) -> None:
        """The reservation stays, since the new version costs no more; raises ``StoreUnavailable``."""
        self._running[call.lease] = call
        self._reserved[call.lease] = self._reserved[call.lease]._replace(call=call)
        self.reservations.move(self._opening(call))

    def released(self, lease: Lease) -> None:
        self.reservations.release(self._reserved[lease].reservation)

    def ended(self, lease: Lease) -> None:
        self.in_flight(self._reserved[lease].model, -1)
        del self._running[lease]

    def settled(self, lease: Lease, settlement: Settlement) -> None:
        call, reservation, _ = self._reserved.pop(lease)
        continued = len(call.attempts.continued_at)
        self.reservations.close(reservation, settlement, gpu_s=gpu_s(call, settlement), continued=continued)

    @property
    def running(self) -> Mapping[Lease, Admitted]:
        return self._running

    def _start_by(self, call: Chosen, *, is_own: bool) -> float:
        timeout_s = self.tiers[call.slo].queue_timeout_s
        waits = is_own or call.principal.plan.priority is Priority.BATCH
        return 0.0 if waits or not timeout_s else call.received_at + timeout_s

    def _claim(self, call: Admitted) -> ReservationRequest:
        who = call.principal
        return ReservationRequest(
            opening=self._opening(call),
            scopes=who.scopes,
            cost=call.cost,
            stream=call.request.stream,
            yields=who.plan.over_quota is OverQuota.YIELD and who.tier.price_factor <= 1.0,
        )

    def _opening(self, call: Admitted) -> Opening:
        request, who, version = call.request, call.principal, call.version
        return Opening(
            request=request.id,
            tenant=who.tenant,
            key=who.key,
            version=version.id,
            digest=version.digest,
            api=request.api,
            priority=who.plan.priority,
            prompt_tokens=call.cost.prompt_tokens,
            price=version.price.at(who.tier.price_factor),
            opened_at=self.clock.now(),
            degraded=",".join(call.degraded),
            output_tokens=call.cost.output_tokens,
            service_tier=who.tier.name,
            price_factor=who.tier.price_factor,
            answers_only=who.answers_only,
        )


def gpu_s(call: Call, end: Settlement) -> float:
    """Return the engine seconds of a request by its worker's count; over all requests they add up to the busy time.

    Without a count: the request's time in the engine divided by the number of concurrent requests. A whole answer that
    broke off has no stages: its time from dispatch counts, less the known wait.
    """
    if call.attempts.used is not None and call.attempts.used.engine_us is not None:
        return min(call.attempts.used.engine_us / 1e6, end.held_s)
    route, adapter, queue, *engine = (
        call.timings.seconds.get(stage, 0.0)
        for stage in (Stage.ROUTE, Stage.ADAPTER, Stage.QUEUE, Stage.COMPUTE, Stage.PREFILL, Stage.DECODE)
    )
    in_engine_s, beside = sum(engine), call.attempts.worker.load.running if call.attempts.worker is not None else 1
    if not in_engine_s and end.usage.total_tokens:
        in_engine_s = max(0.0, end.held_s - route - adapter - queue)
    return in_engine_s / max(1, beside)


def bounded(request: InferenceRequest, most_tokens: int) -> InferenceRequest:
    if not most_tokens or not request.api.generates:
        return request
    field, cost = OUTPUT_FIELD[request.api], request.cost
    if cost.names_no_output:
        each = max(1, most_tokens // cost.sequences)
        return replace(request, body={**request.body, field: each}, cost=cost.with_output(each))
    if cost.output_tokens > most_tokens:
        raise InvalidField(
            f"this plan allows {most_tokens} output tokens a request, all choices together", param=_sent(request)
        )
    return request


def within_context(request: InferenceRequest, call: Chosen) -> InferenceRequest:
    """Return the request with the output that the plan's context leaves beside the prompt.

    Preprocessing has already refused a larger bound set by the caller, and several prompts without one.
    """
    if not call.principal.plan.max_context_tokens or not request.api.generates or request.cost.prompts > 1:
        return request
    left = max(1, call.principal.context(call.version.max_model_len) - call.prepared.prompt_tokens)
    if request.cost.output_each <= left:
        return request
    body = {**request.body, OUTPUT_FIELD[request.api]: left}
    return replace(request, body=body, cost=request.cost.with_output(left))


def _sent(request: InferenceRequest) -> str:
    """Return the field with which the caller bounds the output; the older field only if the newer is absent."""
    field, older = OUTPUT_FIELD[request.api], "max_tokens"
    is_older = request.body.get(field) is None and request.body.get(older) is not None
    return older if is_older and request.api is Api.CHAT else field


def check_sequences(cost: Cost, version: VersionEntry) -> None:
    if not version.max_num_seqs or not cost.output_tokens:
        return
    most = most_sequences(version.max_num_seqs)
    if cost.sequences > most:
        raise ExceedsEngine(
            f"the request asks for {cost.sequences} sequences at once (prompts times n); this model gives one request "
            f"at most {most}: send several smaller requests",
            param="n" if cost.sequences > cost.prompts else "prompt",
        )
