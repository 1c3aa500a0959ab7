"""Money and limits of one request: reserved before dispatch, settled once with its real usage (B3, B5, B6).

The reserved amount is min(worst case, learned quantile), and more for a nearly spent budget (``exposure``). A loop
renews the holds of running requests, so a dead gateway's expire in ``HOLD_S``.

Trade-off: this admits more than worst cases would, and may overshoot a limit until the next round of top-ups, twice a
second.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Protocol
from uuid import uuid4

from penstock.domain.clock import Clock
from penstock.domain.errors import OverBudget, OverLimit, StoreUnavailable
from penstock.domain.ids import NO_VERSION, RequestId, TenantId, VersionId
from penstock.domain.money import MicroUsd
from penstock.domain.outcome import Outcome
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tenancy.ledger import LedgerRow, Opening, close
from penstock.domain.tenancy.limits import Draw, ImmediateLimits, LimitStore, Measure, MeterDecision, MeterKind
from penstock.domain.tenancy.tenant import OverQuota, Principal
from penstock.gateway.admission import exposure
from penstock.gateway.admission.draws import Need, Scope, beyond_quota, draws, least
from penstock.gateway.admission.expectation import OutputExpectation
from penstock.gateway.admission.exposure import Exposure
from penstock.gateway.admission.held import MeanHeld
from penstock.gateway.admission.refusals import Headers, over_budget, over_limit, rate_headers
from penstock.gateway.calls.lease import Lease, Settlement

HOLD_S = 10.0
"""Seconds that slots and budget holds last after the last renewal."""

OVER_QUOTA = (b"x-penstock-standing", b"over-quota")
"""The header for a caller whose request ran over its rates."""

MIN_TOP_UP = 64
"""The minimum of a top-up, in tokens per sequence."""

TRIES = 3
"""Attempts to reserve a budget's rest, which concurrent requests reduce."""

FREE = MeterDecision(granted=True)
"""The decision for a caller without draws."""

Spawn = Callable[[Coroutine[None, None, None]], object]


class Journal(Protocol):
    """Port: the spool on local disk; raises ``StoreUnavailable`` if the disk is full."""

    def opened(self, opening: Opening) -> None: ...

    def delivered(self, request: RequestId, tokens: int) -> None: ...

    def closed(self, row: LedgerRow) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationRequest:
    """``yields``: run on spare capacity instead of being refused for its rates."""

    opening: Opening
    scopes: tuple[Scope, ...]
    cost: Cost
    stream: bool
    yields: bool = False


@dataclass(slots=True, kw_only=True)
class Reservation:
    """``leases`` are those in the store: the first, and one per top-up."""

    opening: Opening
    cost: Cost
    draws: tuple[Draw, ...]
    expected_output: int
    reserved_output: int
    lease: Lease
    leases: list[RequestId]
    beyond: int = 0
    """Micro-dollars that the request may cost beyond its hold."""
    yields: bool = False
    is_running: bool = True
    seen: int = 0
    """The request's output tokens at the last round."""


class Reservations:
    def __init__(
        self,
        *,
        store: LimitStore,
        journal: Journal,
        expectation: OutputExpectation,
        clock: Clock,
        spawn: Spawn,
    ) -> None:
        self._store = store
        self._at_once = store if isinstance(store, ImmediateLimits) else None
        self._spawn = spawn
        self._flushing = False
        self._held = MeanHeld()
        self._journal = journal
        self._expectation = expectation
        self._clock = clock
        self._exposure = Exposure()
        self._living: dict[RequestId, Reservation] = {}
        self._following: set[RequestId] = set()
        self._unsettled: dict[RequestId, dict[Measure, int]] = {}

    async def open(self, claim: ReservationRequest, lease: Lease) -> Reservation:
        opening = claim.opening
        expected = self._expectation.tokens(opening.tenant, opening.version, claim.cost)
        wanted = await self._reserve(claim, _need(claim, expected), lease)
        try:
            self._journal.opened(opening)
        except StoreUnavailable:
            self._settle(opening.request, dict.fromkeys(Measure, 0))
            raise
        reservation = self._living[opening.request] = Reservation(
            opening=opening,
            cost=claim.cost,
            draws=wanted,
            expected_output=expected,
            reserved_output=expected,
            lease=lease,
            leases=[opening.request],
            yields=claim.yields,
        )
        if (held := exposure.money(wanted)) is not None:
            reservation.reserved_output = max(expected, _paid_output(claim, held))
            reservation.beyond = max(0, _worst(claim) - held)
            self._exposure.change(wanted, reservation.beyond)
        lease.expected_output = expected
        return reservation

    def overdue(self, grace_s: float) -> int:
        """Return the number of reservations ``grace_s`` past their deadline; more than 0 is a leak."""
        latest = self._clock.monotonic() - grace_s
        return sum(1 for reservation in self._living.values() if reservation.lease.deadline_at < latest)

    async def refuse_early(self, who: Principal, versions: Sequence[VersionId]) -> None:
        """Raise the refusal that the caller's smallest request would get from all versions. Nothing is drawn."""
        refusals = [await self._refused_now(who, version) for version in versions] if who.scopes else []
        if refusals and all(refusals):
            raise min(filter(None, refusals), key=lambda error: error.retry_after_s or 0.0)

    async def draw_request(self, request: RequestId, who: Principal, version: VersionId) -> Headers:
        """Draw the request's rate alone, for a call without an engine; raises ``OverLimit``."""
        every = least(who.scopes, version, self._clock.now()) if who.scopes else ()
        wanted = tuple(draw for draw in every if draw.measure is Measure.REQUESTS)
        decision = await self._take(request, wanted)
        told = rate_headers(wanted, decision.remaining)
        if decision.refused_by is not None:
            raise self._refusal(who.tenant, decision.refused_by, decision, told)
        if wanted:
            self._settle(request, {})
        return told

    @asynccontextmanager
    async def following(self, who: Principal) -> AsyncIterator[None]:
        """Hold a stream's slots alone, for a reader of kept events; raises ``OverLimit``."""
        need, lease = Need(version=NO_VERSION, tokens=1, cost=MicroUsd(0), stream=True), RequestId(uuid4().hex)
        every = draws(who.scopes, need, self._clock.now()) if who.scopes else ()
        wanted = tuple(draw for draw in every if draw.measure is Measure.STREAMS)
        decision = await self._take(lease, wanted)
        if decision.refused_by is not None:
            raise self._refusal(who.tenant, decision.refused_by, decision, [])
        if not wanted:
            yield
            return
        self._following.add(lease)
        try:
            yield
        finally:
            self._following.discard(lease)
            self._settle(lease, {})

    async def _refused_now(self, who: Principal, version: VersionId) -> OverLimit | OverBudget | None:
        wanted = least(who.scopes, version, self._clock.now())
        if who.plan.over_quota is OverQuota.YIELD:
            wanted = beyond_quota(wanted)
        decision = await self._store.look(wanted) if wanted else FREE
        if decision.refused_by is None:
            return None
        told = rate_headers(wanted, decision.remaining)
        return self._refusal(who.tenant, decision.refused_by, decision, told)

    async def _reserve(self, claim: ReservationRequest, need: Need, lease: Lease) -> tuple[Draw, ...]:
        request, tenant = claim.opening.request, claim.opening.tenant
        wanted = draws(claim.scopes, need, self._clock.now())
        if exposure.money(wanted) is None:
            decision = await self._take(request, wanted)
        else:
            wanted = self._exposure.hold(wanted, _worst(claim))
            wanted, decision = await self._take_what_is_left(request, wanted, need.cost)
        lease.drawn, lease.left = wanted, decision.remaining
        lease.headers = rate_headers(wanted, decision.remaining)
        if decision.refused_by is None:
            return wanted
        refused = self._refusal(tenant, decision.refused_by, decision, lease.headers)
        if not (claim.yields and _is_rate(decision) and isinstance(refused, OverLimit)):
            raise refused
        rest, second = await self._take_what_is_left(request, beyond_quota(wanted), need.cost)
        lease.drawn, lease.left = rest, second.remaining
        if second.refused_by is not None:
            raise self._refusal(tenant, second.refused_by, second, lease.headers)
        lease.over_quota = refused
        lease.headers = [*lease.headers, OVER_QUOTA]
        return rest

    async def _take_what_is_left(
        self, request: RequestId, wanted: tuple[Draw, ...], least: int
    ) -> tuple[tuple[Draw, ...], MeterDecision]:
        """Make the draws; from a budget with less left, a quarter of its rest and at least ``least``."""
        tries = 0
        while True:
            decision = await self._take(request, wanted)
            self._exposure.saw(wanted, decision.remaining)
            refused, tries = decision.refused_by, tries + 1
            if refused is None or refused.kind is not MeterKind.BUDGET or refused.amount == least or tries == TRIES:
                return wanted, decision
            wanted = exposure.less(wanted, least, exposure.left(wanted, decision.remaining))

    async def _take(self, lease: RequestId, wanted: tuple[Draw, ...]) -> MeterDecision:
        return await self._store.reserve(lease, wanted, HOLD_S) if wanted else FREE

    def move(self, opening: Opening) -> None:
        reservation = self._living[opening.request]
        moved = replace(opening, opened_at=reservation.opening.opened_at)
        self._journal.opened(moved)
        reservation.opening = moved

    def release(self, reservation: Reservation) -> None:
        reservation.is_running = False
        if self._at_once is not None:
            self._at_once.free_now(reservation.opening.request)
        elif any(draw.kind is MeterKind.SLOTS for draw in reservation.draws):
            self._spawn(self._free(reservation.opening.request))

    async def _free(self, request: RequestId) -> None:
        if request in self._living:
            with suppress(StoreUnavailable):  # they are free once it is settled
                await self._store.free(request)

    def close(self, reservation: Reservation, end: Settlement, *, gpu_s: float = 0.0, continued: int = 0) -> LedgerRow:
        """Write the ledger row; ``flush`` settles the lease with the store."""
        usage = end.usage
        row = close(reservation.opening, end.outcome, usage, gpu_s=gpu_s, now=self._clock.now(), continued=continued)
        del self._living[reservation.opening.request]
        if reservation.beyond:
            self._exposure.change(reservation.draws, -reservation.beyond)
        self._held.learn(row.tenant, end.held_s, self._clock.monotonic())
        self._journal.closed(row)
        if end.outcome is Outcome.OK:
            self._expectation.learn(row.tenant, row.version, reservation.cost, row.output_tokens)
        if reservation.draws:
            first, *top_ups = reservation.leases
            self._settle(first, {Measure.TOKENS: usage.total_tokens, Measure.SPEND: int(row.cost)})
            for lease in top_ups:
                self._settle(lease, dict.fromkeys(Measure, 0))
        return row

    async def flush(self) -> None:
        self._flushing = False
        for lease in list(self._unsettled):
            actual = self._unsettled.pop(lease, None)
            if actual is not None and not await self._settled(lease, actual):
                self._unsettled[lease] = actual

    async def inherit(self, rows: Sequence[LedgerRow]) -> None:
        """Settle a dead gateway's open leases; those that it had settled stay unchanged."""
        for row in rows:
            used = {Measure.TOKENS: row.prompt_tokens + row.output_tokens, Measure.SPEND: int(row.cost)}
            self._unsettled.setdefault(row.request, used)
        await self.flush()

    def _settle(self, lease: RequestId, actual: dict[Measure, int]) -> None:
        if self._at_once is not None:
            self._at_once.settle_now(lease, actual)
            return
        self._unsettled[lease] = actual
        if not self._flushing:
            self._flushing = True
            self._spawn(self.flush())

    async def keep(self) -> None:
        await self.flush()
        leases = [lease for reservation in self._living.values() for lease in reservation.leases]
        with suppress(StoreUnavailable):
            await self._store.renew([*leases, *self._following], HOLD_S)
        for request, reservation in self._living.items():
            self._journal.delivered(request, reservation.lease.delivered)

    async def top_up(self) -> None:
        """Reserve more for answers that will exceed their reservation before the next round; end the refused ones."""
        for reservation in list(self._living.values()):
            made = reservation.lease.delivered - reservation.seen
            reservation.seen += made
            if reservation.is_running and reservation.seen + made >= reservation.reserved_output:
                await self._top_up(reservation, made)

    async def _top_up(self, reservation: Reservation, made: int) -> None:
        """Reserve the same amount again, at least two rounds' worth (``made``: tokens of the last), or else the
        minimum.

        An answer that has exceeded its reservation and is refused even the minimum ends with the limit's error.
        """
        left = reservation.cost.output_tokens - reservation.reserved_output
        least = MIN_TOP_UP * reservation.cost.sequences
        wished = max(least, reservation.expected_output, 2 * made)
        refused: MeterDecision | None = None
        for extra in dict.fromkeys((min(wished, left), min(least, left))):
            refused = await self._take_more(reservation, extra) if extra > 0 else None
            if refused is None:  # it may produce no more, or the store is away: what runs, runs on
                return
            if refused.granted:
                reservation.reserved_output += extra
                return
        end_early, draw = reservation.lease.end_early, refused.refused_by if refused is not None else None
        has_outgrown = reservation.seen >= reservation.reserved_output
        if refused is not None and draw is not None and end_early is not None and has_outgrown:
            end_early(self._refusal(reservation.opening.tenant, draw, refused, [], has_run=True))

    async def _take_more(self, reservation: Reservation, extra: int) -> MeterDecision | None:
        cost = reservation.opening.price.of(prompt=0, cached=0, output=extra)
        amounts = {Measure.TOKENS: extra, Measure.SPEND: int(cost)}
        wanted = tuple(replace(d, amount=amounts[d.measure]) for d in reservation.draws if d.measure in amounts)
        lease = RequestId(f"{reservation.opening.request}#{len(reservation.leases)}")
        try:
            decision = await self._take(lease, wanted)
            if reservation.yields and _is_rate(decision):
                decision = await self._take(lease, beyond_quota(wanted))
        except StoreUnavailable:
            return None
        if decision.granted and reservation.opening.request not in self._living:  # it ended while the store was asked
            self._settle(lease, dict.fromkeys(Measure, 0))
        elif decision.granted:
            reservation.leases.append(lease)
            covered = min(reservation.beyond, cost)
            self._exposure.change(reservation.draws, -covered)
            reservation.beyond -= covered
        return decision

    async def _settled(self, lease: RequestId, actual: dict[Measure, int]) -> bool:
        try:
            await self._store.settle(lease, actual)
        except StoreUnavailable:
            return False
        return True

    def _refusal(
        self, tenant: TenantId, draw: Draw, refused: MeterDecision, headers: Headers, *, has_run: bool = False
    ) -> OverLimit | OverBudget:
        now = self._clock.monotonic()
        if draw.kind is MeterKind.BUDGET:
            free_in_s = self._held.next_free_s(tenant, 1, now)
            return over_budget(refused, draw, free_in_s, headers, self._clock.now(), has_run=has_run)
        is_slot = draw.kind is MeterKind.SLOTS
        wait_s = self._held.next_free_s(tenant, draw.capacity, now) if is_slot else refused.retry_after_s
        return over_limit(draw, wait_s, headers)


def _is_rate(decision: MeterDecision) -> bool:
    return decision.refused_by is not None and decision.refused_by.kind is MeterKind.BUCKET


def _worst(claim: ReservationRequest) -> int:
    """Return the request's highest possible cost, in micro-dollars."""
    cost = claim.cost
    return claim.opening.price.of(prompt=cost.prompt_tokens, cached=0, output=cost.output_tokens)


def _paid_output(claim: ReservationRequest, held: int) -> int:
    price = claim.opening.price
    prompt = price.of(prompt=claim.cost.prompt_tokens, cached=0, output=0)
    return price.output_for(held - prompt, claim.cost.output_tokens)


def _need(claim: ReservationRequest, expected: int) -> Need:
    prompt = claim.cost.prompt_tokens
    return Need(
        version=claim.opening.version,
        tokens=prompt + expected,
        cost=claim.opening.price.of(prompt=prompt, cached=0, output=expected),
        stream=claim.stream,
        slots=claim.cost.slots,
        is_bound=not claim.cost.is_counted,
    )
