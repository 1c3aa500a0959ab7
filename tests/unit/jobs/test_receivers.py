"""Who gets a connection: bounds, and that what hangs leaves room to others."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.domain.ids import TenantId
from penstock.domain.jobs.ids import EndpointId
from penstock.domain.jobs.webhook import WaitingEndpoint
from penstock.jobs.receivers import (
    MOST_AT_ONCE,
    MOST_FAILING,
    MOST_FIRST,
    MOST_MORE,
    MOST_MORE_PER_TENANT,
    MOST_PER_ENDPOINT,
    Sending,
    choose,
)


def waiting(name: str, *, tenant: str = "t", late_s: float = 0.0, is_failing: bool = False) -> WaitingEndpoint:
    return WaitingEndpoint(endpoint=EndpointId(name), tenant=TenantId(tenant), late_s=late_s, is_failing=is_failing)


def sending(count: int = 1, *, tenant: str = "t", is_failing: bool = False, is_slow: bool = False) -> Sending:
    return Sending(tenant=TenantId(tenant), count=count, is_failing=is_failing, is_slow=is_slow)


def rounds(queues: list[WaitingEndpoint]) -> list[EndpointId]:
    """Return the endpoints in the order in which they get their first connection, if none ends."""
    open_now: dict[EndpointId, Sending] = {}
    while chosen := choose([one for one in queues if one.endpoint not in open_now], open_now):
        failing = {one.endpoint: one.is_failing for one in queues}
        open_now |= {name: sending(is_failing=failing[name], is_slow=True) for name in chosen}
    return list(open_now)


def test_a_new_endpoint_comes_in_beside_a_thousand_that_hang() -> None:
    """All of them with an open attempt, known to fail or not."""
    for is_failing in (False, True):
        busy = {EndpointId(f"h{i}"): sending(tenant=f"t{i}", is_failing=is_failing, is_slow=True) for i in range(1_000)}
        queues = [waiting(name, late_s=9.0, is_failing=is_failing) for name in busy]
        assert choose([*queues, waiting("new")], busy)[EndpointId("new")] >= 1
        assert not set(choose(queues, busy)) & set(busy)


def test_known_failures_never_take_all_connections() -> None:
    """Of two thousand failing endpoints, all due, a bounded part is tried at once, and after those that answer."""
    queues = [waiting(f"f{i}", is_failing=True, late_s=99.0) for i in range(2_000)]
    begun = rounds([*queues, *(waiting(f"g{i}") for i in range(400))])
    assert sum(name.startswith("f") for name in begun) == MOST_FAILING
    assert all(name.startswith("g") for name in begun[:400])


def test_a_round_is_short_and_queues_come_last() -> None:
    """A burst is begun in parts, each endpoint's first delivery before any other's second."""
    queues = [waiting(f"e{i}", tenant=f"t{i}", late_s=float(i)) for i in range(MOST_AT_ONCE + 1)]
    chosen = choose(queues, {})
    assert len(chosen) == sum(chosen.values()) == MOST_AT_ONCE
    assert "e0" not in chosen
    assert sum(choose(queues[:3], {}).values()) == 3 * MOST_PER_ENDPOINT


def test_an_endpoint_that_does_not_answer_gets_no_second_connection() -> None:
    """Neither a failing nor a slow one, however long its queue is."""
    for busy in (sending(is_failing=True), sending(is_slow=True)):
        assert choose([waiting("e")], {EndpointId("e"): busy}) == {}
    assert choose([waiting("e", is_failing=True)], {}) == {"e": 1}
    assert choose([waiting("e")], {EndpointId("e"): sending()}) == {"e": MOST_PER_ENDPOINT - 1}


@settings(deadline=None, max_examples=50)
@given(
    open_now=st.dictionaries(st.integers(0, 400), st.tuples(st.integers(1, 16), st.booleans(), st.booleans())),
    due=st.lists(st.tuples(st.integers(0, 3_000), st.booleans()), max_size=2_500, unique_by=lambda one: one[0]),
    tenants=st.integers(1, 40),
)
def test_no_bound_is_passed(
    open_now: dict[int, tuple[int, bool, bool]], due: list[tuple[int, bool]], tenants: int
) -> None:
    """Connections of an endpoint, of a tenant and of all stay within the table, if they were before."""
    busy = {
        EndpointId(f"{n}"): sending(
            1 if fails or slow else count, tenant=f"{n % tenants}", is_failing=fails, is_slow=slow
        )
        for n, (count, fails, slow) in open_now.items()
    }
    before = Counter[str]()
    for one in busy.values():
        before[one.tenant] += one.count - 1
    chosen = choose([waiting(f"{n}", tenant=f"{n % tenants}", is_failing=fails) for n, fails in due], busy)
    after, more = Counter(before), before.total()
    for name, count in chosen.items():
        extra = count if name in busy else count - 1
        after[f"{int(name) % tenants}"] += extra
        more += extra
        assert count + (busy[name].count if name in busy else 0) <= MOST_PER_ENDPOINT
    assert sum(chosen.values()) <= MOST_AT_ONCE
    assert len(busy) + sum(name not in busy for name in chosen) <= MOST_FIRST
    assert more <= max(MOST_MORE, before.total())
    assert all(count <= max(MOST_MORE_PER_TENANT, before[tenant]) for tenant, count in after.items())
