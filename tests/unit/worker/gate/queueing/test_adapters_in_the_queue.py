"""The whole queue before an engine with adapters: grouping, honest waits, and nothing for those without one."""

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from penstock.domain.ids import NO_VERSION, RequestId, TenantId, VersionId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.adapter_slots import AdapterSlots
from penstock.worker.gate.queueing.admission import AdmissionQueue, Shed
from penstock.worker.gate.queueing.constants import BOUND_S
from penstock.worker.gate.queueing.residents import Residents
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.queueing.work import Work

A, B, C, D = (VersionId(f"{name}@000000000000") for name in "abcd")
SIZE = EngineSize(max_seqs=2, kv_blocks=1000, block_size=16, prefill_tokens=10**6)


class Site:
    """A queue with one slot, A and B in memory; notes who came in and who was sent away."""

    def __init__(self) -> None:
        self.residents = Residents(4)
        for one in (A, B):
            self.residents.loaded(one, 0.0)
            self.residents.ready(one, 0.0)
        slots = AdapterSlots(1, self.residents)
        self.queue: AdmissionQueue = AdmissionQueue(SIZE, adapters=slots)
        self.inside: list[str] = []
        self.shed: dict[str, Shed] = {}
        self._numbers: Iterator[int] = count()

    @staticmethod
    def work(
        name: str, adapter: VersionId, *, tenant: str = "acme", start_by: float = 0.0, deadline_at: float = 0.0
    ) -> Work:
        """Return a request."""
        return Work(
            request=RequestId(name),
            tenant=TenantId(tenant),
            standing=Standing.PAID,
            weight=1.0,
            prompt_tokens=10,
            expected_output_tokens=10,
            adapter=adapter,
            start_by=start_by,
            deadline_at=deadline_at,
        )

    def arrive(
        self,
        adapter: VersionId,
        now: float,
        *,
        tenant: str = "acme",
        start_by: float = 0.0,
        deadline_at: float = 0.0,
    ) -> str:
        """Bring a request; return its name."""
        name = f"{adapter[:1] or 'base'}{next(self._numbers)}"
        work = self.work(name, adapter, tenant=tenant, start_by=start_by, deadline_at=deadline_at)
        note: Callable[[Shed, float], None] = lambda why, _: self.shed.update({name: why})  # noqa: E731
        self.queue.arrive(work, now, lambda: self.inside.append(name), note)
        return name


@pytest.fixture
def site() -> Site:
    """Return it."""
    return Site()


def test_requests_of_an_adapter_in_a_slot_go_before_one_that_needs_a_swap(site: Site) -> None:
    """Of one tenant's queue the oldest that may come in is next, not the oldest."""
    first = site.arrive(A, 0.0)
    waits = site.arrive(B, 0.1)
    second = site.arrive(A, 0.2)
    assert site.inside == [first, second]
    site.queue.leave(RequestId(first), 0.3)
    assert waits not in site.inside
    site.queue.leave(RequestId(second), 0.4)
    assert site.inside == [first, second, waits]


def test_the_base_waits_for_no_slot(site: Site) -> None:
    """Requests without an adapter pass those that wait for one."""
    first = site.arrive(A, 0.0)
    site.arrive(B, 0.1)
    assert site.arrive(NO_VERSION, 0.2) == site.inside[-1]
    assert len(site.inside) == 2
    assert first in site.inside


def test_a_load_that_would_come_too_late_refuses_at_once(site: Site) -> None:
    """The load is part of the predicted wait: whose deadline is before that is told so, with the time to come back."""
    late = site.arrive(C, 0.0, deadline_at=BOUND_S / 2)
    assert site.shed == {late: Shed.LATE}
    assert site.residents.wanted(0.0) == C, "it is loaded all the same: who was sent away comes again"
    waits = site.arrive(C, 0.0, deadline_at=BOUND_S * 2)
    assert waits not in site.shed
    assert site.residents.wanted(0.0) == C


def test_a_load_is_no_part_of_the_queue_that_its_tier_bounds(site: Site) -> None:
    """Requests wait for loads one after the other, each longer than their queue timeout: nobody is refused for that."""
    site.residents.load_s = 20.0
    for one in (C, D):
        site.arrive(one, 0.0, start_by=15.0)
    assert site.shed == {}


def test_what_a_load_makes_late_is_not_the_doing_of_its_tenant(site: Site) -> None:
    """Without the tenant's own requests it would be as late; the queue knows that the load is what it waits for."""
    site.arrive(A, 0.0)
    site.arrive(B, 0.0)
    late = site.work("c", C, deadline_at=BOUND_S / 2)
    assert site.queue.forecast.is_for_load(late, 0.0)
    assert not site.queue.is_own(late, 0.0)


def test_who_waits_for_an_adapter_that_is_refused_is_sent_away(site: Site) -> None:
    """They go at once, others stay."""
    gone = site.arrive(C, 0.0)
    site.arrive(A, 0.0, tenant="other")
    waits = site.arrive(B, 0.0)
    site.queue.turn_away(C, 0.1)
    assert site.shed == {gone: Shed.ADAPTER}
    assert not site.residents.waits(C)
    assert site.residents.waits(B)
    assert waits not in site.shed


def test_a_waiting_request_that_leaves_waits_no_more(site: Site) -> None:
    """It is as if it had never come, but for the wish: who asks so likely asks again."""
    gone = site.arrive(C, 0.0)
    site.queue.leave(RequestId(gone), 0.1)
    assert not site.residents.waits(C)
    assert len(site.queue) == 0
