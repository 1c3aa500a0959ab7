"""The fair queue's promises, as properties over random traffic."""

import itertools
import random
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.constants import LEVEL_WEIGHT, MAX_BYPASSES, MOST_KNOWN
from penstock.worker.gate.queueing.fair_queue import Bounds, FairQueue
from penstock.worker.gate.queueing.work import Fit, Work

_ids = itertools.count()
WIDE = Bounds(tenant_requests=10**6, tenant_cost=1e12, total_requests=10**6, total_cost=1e12)


def work(
    tenant: str,
    *,
    prompt: int = 100,
    output: int = 50,
    weight: float = 1.0,
    standing: Standing = Standing.PAID,
) -> Work:
    return Work(
        request=RequestId(f"r{next(_ids)}"),
        tenant=TenantId(tenant),
        standing=standing,
        weight=weight,
        prompt_tokens=prompt,
        expected_output_tokens=output,
    )


def anything(_: Work) -> Fit:
    return Fit.YES


def take(queue: FairQueue, count: int) -> list[Work]:
    taken: list[Work] = []
    while len(taken) < count and (item := queue.pop(anything)) is not None:
        taken.append(item)
    return taken


def drain(queue: FairQueue) -> list[Work]:
    return take(queue, len(queue))


sizes = st.integers(1, 2000)


some_tenants = given(
    weights=st.lists(st.sampled_from([1.0, 2.0, 5.0]), min_size=2, max_size=4),
    jobs=st.lists(st.tuples(sizes, sizes), min_size=30, max_size=60),
    seed=st.integers(0, 2**16),
)
"""Tenants of these weights, each with all of these jobs in an order of its own."""


def backlogged(weights: list[float], jobs: list[tuple[int, int]], rng: random.Random) -> tuple[FairQueue, list[float]]:
    """Return a queue in which they all wait, and each tenant's longest request over its weight."""
    queue, longest = FairQueue(WIDE), [0.0] * len(weights)
    for i, weight in enumerate(weights):
        for prompt, output in rng.sample(jobs, len(jobs)):
            item = work(str(i), prompt=prompt, output=output, weight=weight)
            longest[i] = max(longest[i], item.cost / weight)
            queue.push(item)
    return queue, longest


@some_tenants
def test_service_of_backlogged_tenants_follows_their_weights(
    weights: list[float], jobs: list[tuple[int, int]], seed: int
) -> None:
    """While two tenants are backlogged their normalised services differ by at most one request of each."""
    queue, longest = backlogged(weights, jobs, random.Random(seed))
    served = [0.0] * len(weights)
    left = [len(jobs)] * len(weights)
    while all(left):
        (item,) = take(queue, 1)
        served[int(item.tenant)] += item.cost
        left[int(item.tenant)] -= 1
        for i, j in itertools.combinations(range(len(weights)), 2):
            bound = longest[i] + longest[j]
            assert abs(served[i] / weights[i] - served[j] / weights[j]) <= bound + 1e-6


@some_tenants
def test_who_asks_one_at_a_time_may_be_ahead_by_one_request_more(
    weights: list[float], jobs: list[tuple[int, int]], seed: int
) -> None:
    """Requests end at random: who has nothing inside goes first, and still nobody gets more than two ahead."""
    rng = random.Random(seed)
    queue, longest = backlogged(weights, jobs, rng)
    served, left, inside = [0.0] * len(weights), [len(jobs)] * len(weights), list[Work]()
    while all(left):
        (item,) = take(queue, 1)
        inside.append(item)
        served[int(item.tenant)] += item.cost / item.weight
        left[int(item.tenant)] -= 1
        while inside and rng.random() < 0.7:
            queue.finish(inside.pop(rng.randrange(len(inside))))
        for i, j in itertools.permutations(range(len(weights)), 2):
            assert served[i] - served[j] <= 2 * longest[i] + longest[j] + 1e-6


def test_who_has_nothing_inside_goes_before_who_always_has() -> None:
    """A reader of one document at a time is not sent behind a flood for what it read last."""
    queue = FairQueue(WIDE)
    first = work("reader", prompt=500)
    queue.push(first)
    assert queue.pop(anything) is first
    for _ in range(10):
        queue.push(work("flood", prompt=50))
    take(queue, 2)
    queue.finish(first)
    again = work("reader", prompt=500)
    queue.push(again)
    assert queue.pop(anything) is again
    queue.push(work("reader", prompt=500))
    assert [item.tenant for item in take(queue, 3)] == ["flood"] * 3


@given(st.lists(st.tuples(st.sampled_from("abc"), sizes, st.sampled_from(list(Standing))), max_size=60))
def test_it_is_work_conserving(jobs: list[tuple[str, int, Standing]]) -> None:
    """As long as anything waits and fits, something starts, of whatever standing; everything comes out exactly once."""
    queue = FairQueue(WIDE)
    pushed = [work(t, prompt=p, standing=c) for t, p, c in jobs]
    for item in pushed:
        queue.push(item)
    assert sorted(w.request for w in drain(queue)) == sorted(w.request for w in pushed)
    assert len(queue) == 0
    assert queue.waiting_cost == 0.0


def test_idling_earns_no_credit() -> None:
    """A tenant that comes back after a long idle time gets its share from now on, not its missed past."""
    queue = FairQueue(WIDE)
    queue.push(work("idler"))
    queue.pop(anything)
    for _ in range(200):
        queue.push(work("busy"))
    for _ in range(100):
        queue.pop(anything)
    for _ in range(100):
        queue.push(work("idler"))
    first = [w.tenant for w in take(queue, 40)]
    assert 19 <= first.count(TenantId("idler")) <= 21


def test_the_lowest_class_is_never_starved() -> None:
    """With all standings backlogged each level gets its weight's share of the service, batch too; spare work none."""
    queue = FairQueue(WIDE)
    for standing in Standing:
        for _ in range(1000):
            queue.push(work(standing.name, standing=standing))
    first = [w.standing for w in take(queue, 460)]
    for standing in Standing:
        weight = 0.0 if standing.is_spare else LEVEL_WEIGHT[standing]
        expected = 460 * weight / sum(LEVEL_WEIGHT[one] for one in Standing if not one.is_spare)
        assert abs(first.count(standing) - expected) <= 2


def test_requests_of_a_tenant_keep_their_order() -> None:
    """Inside a tenant it is first come, first served."""
    queue = FairQueue(WIDE)
    mine = [work("a", prompt=p) for p in (500, 1, 300, 7)]
    for item in mine:
        queue.push(item)
    assert [w.request for w in drain(queue)] == [w.request for w in mine]


def test_corrections_are_charged_to_the_tenant() -> None:
    """A tenant whose answers run longer than expected pays for it with its next requests."""
    queue = FairQueue(WIDE)
    for _ in range(50):
        queue.push(work("long", output=10))
        queue.push(work("true", output=10))
    served = {"long": 0, "true": 0}
    for _ in range(40):
        item = queue.pop(anything)
        assert item is not None
        served[item.tenant] += 1
        if item.tenant == "long":
            queue.correct(item, item.cost)
        queue.finish(item)
    assert served["true"] == pytest.approx(2 * served["long"], abs=3)


def test_an_escape_through_idling_does_not_work() -> None:
    """A tenant that always leaves before its overrun is corrected still meets the charge on its return."""
    queue = FairQueue(WIDE)
    for _ in range(100):
        queue.push(work("true"))
    first = work("sly")
    queue.push(first)
    while (item := queue.pop(anything)) is not first:
        assert item is not None
    queue.correct(first, 20 * first.cost)
    queue.finish(first)
    queue.push(work("sly"))
    order = [w.tenant for w in take(queue, 15)]
    assert TenantId("sly") not in order


def test_a_big_head_is_overtaken_only_so_often() -> None:
    """Smaller work may pass a head that does not fit, but a bounded number of times; then all wait for it."""
    queue = FairQueue(WIDE)
    big = work("big", prompt=10_000)
    queue.push(big)
    for _ in range(100):
        queue.push(work("small", prompt=1, output=1))
    passed = 0
    while (item := queue.pop(lambda w: Fit.YES if w.prompt_tokens < 1000 else Fit.NO_ROOM)) is not None:
        assert item.tenant == "small"
        passed += 1
    assert passed == MAX_BYPASSES == 8, "as docs/how-it-decides/waiting.md promises"
    assert queue.pop(anything) is big


def test_a_head_that_fits_soon_is_never_overtaken() -> None:
    """What waits a step or two for other prompts goes next: a row of small prompts can't keep out a large one."""
    queue = FairQueue(WIDE)
    big = work("reader", prompt=400)
    queue.push(big)
    queue.push(work("flood", prompt=1, output=1))
    assert queue.pop(lambda w: Fit.SOON if w is big else Fit.YES) is None
    assert queue.pop(anything) is big


def test_a_tenant_beyond_its_share_never_holds_others_up() -> None:
    """Who may not enter because of its own share is passed by others as often as they come."""
    queue = FairQueue(WIDE)
    queue.push(work("flood"))
    for _ in range(100):
        queue.push(work("victim"))
    for _ in range(100):
        item = queue.pop(lambda w: Fit.YES if w.tenant == "victim" else Fit.OVER_SHARE)
        assert item is not None


@given(st.lists(st.booleans(), min_size=1, max_size=80))
def test_removed_requests_never_come_out(keep: list[bool]) -> None:
    """Whoever left the queue is not dispatched, and its cost leaves the sums."""
    queue = FairQueue(WIDE)
    items = [work("ab"[i % 2]) for i in range(len(keep))]
    for item in items:
        queue.push(item)
    for item, stays in zip(items, keep, strict=True):
        if not stays:
            assert queue.remove(item.request) is item
            assert queue.remove(item.request) is None
    expected = [i.request for i, stays in zip(items, keep, strict=True) if stays]
    assert queue.waiting_cost == pytest.approx(sum(150 + 50 for _ in expected))
    assert sorted(w.request for w in drain(queue)) == sorted(expected)


def test_bounds_hold_per_tenant_and_in_all() -> None:
    """A flood fills its own queue, not everybody's."""
    queue = FairQueue(Bounds(tenant_requests=3, tenant_cost=1e9, total_requests=5, total_cost=1e9))
    for _ in range(3):
        queue.push(work("flood"))
    assert queue.make_room(work("flood")) is None
    assert queue.make_room(work("victim")) == []
    queue.push(work("victim"))
    queue.push(work("third"))
    assert queue.make_room(work("fourth")) is None


def test_eviction_takes_the_newest_of_the_longest_queue_of_the_lowest_standing() -> None:
    """For a higher standing the lowest one gives way, and there whoever has most waiting."""
    queue = FairQueue(replace(WIDE, total_requests=5))
    queue.push(work("a", standing=Standing.BATCH))
    last = [work("b", standing=Standing.BATCH) for _ in range(3)]
    for item in last:
        queue.push(item)
    queue.push(work("c"))
    assert queue.make_room(work("d", standing=Standing.BATCH)) is None
    assert queue.make_room(work("d", standing=Standing.INTERACTIVE)) == [last[-1]]


def test_memory_follows_the_busy_tenants() -> None:
    """Tenants that came once are forgotten, in a busy period that never ends too."""
    queue = FairQueue(WIDE)
    queue.push(work("always"))
    queue.pop(anything)
    for i in range(5000):
        item = work(f"t{i}")
        queue.push(item)
        assert queue.pop(anything) is item
        queue.finish(item)
    assert len(queue._levels[Standing.PAID].flows) <= 2 * MOST_KNOWN


@settings(deadline=None)
@given(st.integers(0, 3))
def test_an_operation_stays_cheap_with_ten_thousand_waiting(seed: int) -> None:
    """Push and pop cost microseconds however long the queue is; the bound is wide, the growth is what matters."""
    rng = random.Random(seed)
    queue = FairQueue(WIDE)
    for _ in range(10_000):
        queue.push(work(f"t{rng.randrange(500)}", prompt=rng.randrange(1, 2000)))
    started = time.process_time()
    for _ in range(1000):
        item = queue.pop(anything)
        assert item is not None
        queue.finish(item)
        queue.push(item)
    assert (time.process_time() - started) / 1000 < 500e-6


@given(st.lists(st.tuples(st.sampled_from("abcd"), sizes, st.integers(0, 3)), min_size=5, max_size=60))
def test_eviction_finds_the_longest_queue_whatever_happened_before(steps: list[tuple[str, int, int]]) -> None:
    """After any comings and goings the victim is the newest of whoever has most waiting."""
    queue = FairQueue(WIDE)
    waiting: list[Work] = []
    for tenant, prompt, what in steps:
        if what or not waiting:
            waiting.append(work(tenant, prompt=prompt, standing=Standing.BATCH))
            queue.push(waiting[-1])
        else:
            queue.remove(waiting.pop(prompt % len(waiting)).request)
        if what == 3 and (item := queue.pop(anything)) is not None:
            waiting.remove(item)
    queue.bounds = replace(WIDE, total_requests=max(1, len(waiting)))
    while waiting:
        costs = {w.tenant: sum(o.cost for o in waiting if o.tenant == w.tenant) for w in waiting}
        (victim,) = queue.make_room(work("vip", standing=Standing.INTERACTIVE)) or []
        assert costs[victim.tenant] == pytest.approx(max(costs.values()))
        assert victim is [w for w in waiting if w.tenant == victim.tenant][-1]
        waiting.remove(victim)
        queue.bounds = replace(WIDE, total_requests=max(1, len(waiting)))


def test_tenants_with_one_request_each_are_served_as_they_came() -> None:
    """Among equals nobody is served by name: a crowd of one-time callers is first come, first served."""
    queue, order = FairQueue(WIDE), [f"t{i}" for i in range(60)]
    random.Random(3).shuffle(order)
    served: list[str] = []
    for tenant in order:
        queue.push(work(tenant))
        if len(queue) > 20 and (item := queue.pop(anything)) is not None:
            served.append(item.tenant)
    served += [item.tenant for item in drain(queue)]
    assert served == order


def test_what_is_ahead_counts_everybody_who_goes_before() -> None:
    """Own work, what others get meanwhile by weight, newcomers before it, other levels; spare work waits for all."""
    queue = FairQueue(WIDE)
    for _ in range(10):
        queue.push(work("a"))
    assert queue.ahead_of(work("a")) == 10 * 200
    assert queue.ahead_of(work("b")) == 200
    for _ in range(10):
        queue.push(work("b", weight=2.0))
    assert queue.ahead_of(work("a")) == min(20 * 200, 10 * 200 + 200 + 10 * 200 * 2)
    queue.push(work("i", standing=Standing.INTERACTIVE))
    assert queue.ahead_of(work("a")) == 20 * 200 + 200
    assert queue.ahead_of(work("s", standing=Standing.OVER_QUOTA)) == 21 * 200
