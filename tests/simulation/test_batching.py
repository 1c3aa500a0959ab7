"""The batcher in virtual time: against the exact optimum, behind the real queue, on a device that slows to half."""

import itertools
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from loadtests.simulator.batches import Arrival, Bench, ServedBatch, play
from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.batching.compute import Computes
from penstock.worker.batching.items import Item, Key, Waiting
from penstock.worker.batching.policy import Policy
from penstock.worker.batching.settings import BatchSettings, Caps, Prior
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.queueing.work import Work
from tests.simulation.optimum import fewest_missed
from tests.support.samples.batches import KEY, affine, item

Note = Callable[[str, object], None]
DEVICE = affine(0.010, 0.002)
KEYS = (KEY, replace(KEY, bucket=64))
MOST = 4
SMALL = BatchSettings(
    max_items=MOST,
    slo_s=0.1,
    margin_s=0.0,
    interactive=Caps(max_wait_s=0.05),
    prior=Prior(fixed_s=DEVICE.fixed_s, per_item_s=DEVICE.per_item_s),
)
SLACKS = ((0.010, 0.040), (0.020, 0.060), (0.031, 0.031), (0.010, 0.100))


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def seasoned(keys: tuple[Key, ...], per_s: float, chance: random.Random) -> Bench:
    """Return a device that has computed every size before, and has met arrivals at this rate until now."""
    computes = Computes(SMALL.prior, MOST)
    for key, size in itertools.product(keys, range(1, MOST + 1)):
        for _ in range(40):
            computes.learn(key, size, DEVICE.seconds(size), -1.0)
    policy = Policy(SMALL, computes)
    for at in itertools.accumulate([-40 / per_s, *(chance.expovariate(per_s) for _ in range(39))]):
        past = Waiting(item(key=chance.choice(keys)), min(at, 0.0))
        policy.come(past)
        policy.leave(past)
    return Bench(policy, SMALL, DEVICE, computes)


def trace(
    keys: tuple[Key, ...], gaps_s: list[float], slack: tuple[float, float], chance: random.Random
) -> list[Arrival]:
    return [
        Arrival(at, item(str(n), key=chance.choice(keys), deadline_at=round(at + chance.uniform(*slack), 6)))
        for n, at in enumerate(round(at, 6) for at in itertools.accumulate(gaps_s))
    ]


@pytest.mark.parametrize("keys", [KEYS[:1], KEYS], ids=["one key", "two keys"])
def test_of_what_waits_hardly_more_is_missed_than_must_be(keys: tuple[Key, ...], record_property: Note) -> None:
    """Of backlogs of up to eight items at most 10 % more miss their deadlines than with the exact optimum."""
    ours = best = items = 0
    for (low, high), many, seed in itertools.product(SLACKS, (4, 6, 8), range(25)):
        chance = random.Random(seed)
        arrivals = trace(keys, [0.0] * many, (low, high), chance)
        best += fewest_missed(arrivals, MOST, DEVICE.seconds)
        ours += seasoned(keys, 100.0, chance).play(arrivals).missed
        items += many
    record_property("missed", {"items": items, "optimum": best, "ours": ours})
    tell(f"backlog, {len(keys)} keys: {items} items, the optimum misses {best}, we {ours} ({ours / best:.3f})")
    assert best > items / 20
    assert best <= ours <= 1.10 * best


@pytest.mark.parametrize(
    ("keys", "per_s"),
    [
        pytest.param(KEYS[:1], 150.0, marks=pytest.mark.drill),
        (KEYS[:1], 300.0),
        (KEYS, 150.0),
        pytest.param(KEYS, 300.0, marks=pytest.mark.drill),
    ],
)
def test_who_knows_the_future_saves_at_most_a_tenth_of_the_items(
    keys: tuple[Key, ...], per_s: float, record_property: Note
) -> None:
    """On traces of ten arrivals an optimum that knows them before they come saves at most 10 % of the items."""
    ours = best = items = 0
    for slack, seed in itertools.product(((0.040, 0.040), (0.030, 0.100)), range(25)):
        chance = random.Random(seed)
        arrivals = trace(keys, [chance.expovariate(per_s) for _ in range(10)], slack, chance)
        best += fewest_missed(arrivals, MOST, DEVICE.seconds)
        ours += seasoned(keys, per_s, chance).play(arrivals).missed
        items += len(arrivals)
    record_property("missed", {"items": items, "optimum": best, "ours": ours})
    tell(f"{len(keys)} keys, {per_s:.0f}/s: {items} items, who knows the future misses {best}, we {ours}")
    assert best <= ours <= best + 0.10 * items


# -- who is in a batch: the queue's word --------------------------------------------------------------


class Behind:
    """Tenants with endless demand, before the real queue; admitted requests go to the batcher at once."""

    def __init__(self, weights: dict[TenantId, float], most_items: int) -> None:
        size = EngineSize(max_seqs=2 * most_items, kv_blocks=10**9, block_size=16, prefill_tokens=10**9)
        self.queue: AdmissionQueue = AdmissionQueue(size)
        self.weights = weights
        self._numbers = itertools.count()
        self._admitted: list[Item] = []
        self.done: Counter[TenantId] = Counter()

    def begin(self, waiting: int) -> list[Arrival]:
        """Let ``each`` requests of every tenant come, and return the admitted ones."""
        for _, tenant in itertools.product(range(waiting), self.weights):
            self._come(tenant, 0.0)
        return [Arrival(0.0, one) for one in self._taken()]

    def after(self, served: ServedBatch) -> list[Item]:
        """A batch has ended: its items leave the engine, their tenants ask again, others are let in."""
        for one in served.taken:
            self.queue.leave(RequestId(str(one.item.payload)), served.ended_at)
            self.done[one.item.tenant] += 1
            self._come(one.item.tenant, served.ended_at)
        return self._taken()

    def _come(self, tenant: TenantId, now: float) -> None:
        name = RequestId(f"{tenant}/{next(self._numbers)}")
        work = Work(
            request=name,
            tenant=tenant,
            standing=Standing.PAID,
            weight=self.weights[tenant],
            prompt_tokens=32,
            expected_output_tokens=0,
        )
        let_in = item(tenant, cost=32, standing=Standing.PAID, payload=name, weight=self.weights[tenant])
        self.queue.arrive(work, now, lambda: self._admitted.append(let_in), lambda *_: None)

    def _taken(self) -> list[Item]:
        taken, self._admitted = self._admitted, []
        return taken


def test_shares_by_weight_hold_through_the_batcher(record_property: Note) -> None:
    """Three floods of weights 4, 2 and 1 before the real queue get as much of the batches, within 10 %."""
    weights = {TenantId("four"): 4.0, TenantId("two"): 2.0, TenantId("one"): 1.0}
    settings = replace(SMALL, max_items=16)
    behind, computes = Behind(weights, 16), Computes(SMALL.prior, 16)
    bench = Bench(Policy(settings, computes), settings, DEVICE, computes, after=behind.after)
    bench.play(behind.begin(64), until=30.0)
    shares = {tenant: done / behind.done.total() for tenant, done in behind.done.items()}
    record_property("shares", shares)
    full = sum(len(batch.taken) for batch in bench.played.batches) / len(bench.played.batches)
    assert full > 11.0  # four of each: what an eighth of the promise, or more than a single item, holds
    for tenant, weight in weights.items():
        assert shares[tenant] == pytest.approx(weight / 7.0, rel=0.10)


# -- a device that slows to half ---------------------------------------------------------------------


def test_the_window_follows_a_device_that_slows_to_half(record_property: Note) -> None:
    """From three seconds after each change of pace W is within 12 % of what the promise leaves; hardly any is late."""
    chance, at, arrivals = random.Random(7), 0.0, list[Arrival]()
    while (at := at + chance.expovariate(150.0)) < 60.0:
        arrivals.append(Arrival(at, item(deadline_at=at + 0.2)))
    settings = replace(SMALL, max_items=16, slo_s=0.2, interactive=Caps(max_wait_s=1.0))
    jitter = random.Random(8)

    def took(_: Key, size: int, now: float) -> float:
        return DEVICE.seconds(size) * (2.0 if 20.0 <= now < 40.0 else 1.0) * jitter.uniform(0.97, 1.03)

    played = play(arrivals, settings, took)
    shown, worst = list[tuple[int, float, float]](), 0.0
    for batch in played.batches:
        pace = 2.0 if 20.0 <= batch.began_at < 40.0 else 1.0
        true_w = 0.2 - 1.03 * pace * DEVICE.seconds(len(batch.taken))
        if not any(change <= batch.decided_at < change + 3.0 for change in (0.0, 20.0, 40.0)):
            worst = max(worst, abs(batch.window_s / true_w - 1.0))
        if not shown or int(batch.decided_at) >= shown[-1][0] + 5:
            shown.append((int(batch.decided_at), batch.window_s, true_w))
    record_property("window", shown)
    for second, believed, true_w in shown:
        tell(f"{second:>3} s  W {believed * 1e3:6.1f} ms, what the promise leaves {true_w * 1e3:6.1f} ms")
    assert worst < 0.12
    assert played.missed < 0.01 * len(arrivals)
