"""Who is in a batch beside others: by what each tenant has had of the device, in batches that end soon."""

from dataclasses import replace

import pytest

from penstock.domain.ids import TenantId
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.worker.batching.compute import Computes
from penstock.worker.batching.items import Item, Key, Waiting
from penstock.worker.batching.policy import BESIDE_PART, Batch, DeviceState, Policy
from penstock.worker.batching.settings import BatchSettings
from penstock.worker.batching.tenants import ACTIVE_S, Tenants
from tests.support.samples.batches import KEY, item

IDLE = DeviceState(0, 0.0, 0.0)
SHORT, LONG = replace(KEY, bucket=16), replace(KEY, bucket=256)
SETTINGS = BatchSettings(max_items=32, slo_s=0.2)
ANN, BOB = TenantId("ann"), TenantId("bob")


def a_policy(each_s: dict[Key, float], fixed_s: float = 0.0) -> Policy:
    computes = Computes(SETTINGS.prior, SETTINGS.max_items)
    for _ in range(50):
        for key, size in ((key, size) for key in each_s for size in (1, 2, 3, 4, 8, 16, 32)):
            computes.learn(key, size, fixed_s + each_s[key] * size, 0.0)
    return Policy(SETTINGS, computes)


def come(policy: Policy, *items: Item, at: float = 0.0) -> None:
    for one in items:
        policy.come(Waiting(one, at))


def started(policy: Policy, now: float = 0.0) -> Batch:
    batch = policy.decide(now, IDLE).batch
    assert batch is not None
    return batch


def tenants_of(batch: Batch) -> list[str]:
    return [one.item.tenant for one in batch.taken]


def test_a_tenant_alone_has_batches_of_half_of_the_promise() -> None:
    """A full one would make whoever comes late by itself."""
    policy = a_policy({LONG: 0.02})
    come(policy, *(item("ann", key=LONG) for _ in range(32)))
    assert len(started(policy).taken) == 5


def test_beside_others_a_long_item_goes_alone() -> None:
    """It gains nothing by company, and whoever comes next would wait for all."""
    policy = a_policy({LONG: 0.05, SHORT: 0.001})
    come(policy, item("bob", key=SHORT))
    assert tenants_of(started(policy)) == ["bob"]
    come(policy, *(item("ann", key=LONG) for _ in range(8)))
    assert tenants_of(started(policy)) == ["ann"]
    come(policy, item("bob", key=LONG))
    assert tenants_of(started(policy)) == ["bob"]


def test_a_device_that_computes_many_as_fast_as_one_gets_many() -> None:
    """Half as long again as a single item is worth a batch that is as large as it may be."""
    policy = a_policy({LONG: 0.0005}, fixed_s=0.05)
    come(policy, item("bob", key=LONG), *(item("ann", key=LONG) for _ in range(31)))
    assert len(started(policy).taken) == 32


def test_floods_of_several_tenants_share_a_full_batch() -> None:
    """Each has what may be its own in it: nobody's batches are small because there are many tenants."""
    policy = a_policy({SHORT: 0.005})
    come(policy, *(item(tenant, key=SHORT) for _ in range(32) for tenant in ("ann", "bob", "cas")))
    taken = tenants_of(started(policy))
    assert {one: taken.count(one) for one in taken} == dict.fromkeys(("ann", "bob", "cas"), 5)


def test_a_light_tenants_item_goes_before_what_a_heavy_one_has_waiting() -> None:
    """Whoever has had less of the device is next, although the others came long before."""
    policy = a_policy({LONG: 0.05, SHORT: 0.001})
    come(policy, item("bob", key=SHORT))
    started(policy)
    come(policy, *(item("ann", key=LONG) for _ in range(8)))
    for turn in range(5):
        assert tenants_of(started(policy, turn * 0.05)) == ["ann"]
        come(policy, item("bob", key=SHORT), at=turn * 0.05 + 0.01)
        assert tenants_of(started(policy, turn * 0.05 + 0.05)) == ["bob"]


def test_within_one_group_a_light_tenant_is_in_the_next_batch() -> None:
    """Its item came last, and is first."""
    policy = a_policy({SHORT: 0.005})
    come(policy, item("bob", key=SHORT))
    started(policy)
    come(policy, *(item("ann", key=SHORT) for _ in range(20)))
    first = started(policy)
    assert tenants_of(first) == ["ann"] * int(BESIDE_PART * SETTINGS.slo_s / 0.005)
    come(policy, item("bob", key=SHORT), at=0.01)
    assert tenants_of(started(policy, 0.02)) == ["bob", *["ann"] * 5]


def test_what_was_never_measured_is_tried_with_one() -> None:
    """Nobody knows how long many would take: a caller of ever new shapes holds the device no longer for that."""
    policy = a_policy({SHORT: 0.001})
    come(policy, *(item("ann", key=LONG) for _ in range(8)))
    assert len(started(policy).taken) == 1


def test_seconds_count_by_weight_and_being_away_earns_nothing() -> None:
    """A tenant of weight 2 is charged half; one that comes back begins where the others are."""
    tenants = Tenants()
    heavy = Waiting(item("ann", weight=2.0), 0.0)
    tenants.charge([heavy, heavy], 1.0)
    tenants.charge([heavy], 1.0)
    assert tenants.virtual_time(ANN) == pytest.approx(1.5)
    assert tenants.virtual_time(BOB) == pytest.approx(1.0)
    tenants.charge([Waiting(item("bob"), 0.0)], 3.0)
    assert tenants.virtual_time(BOB) == pytest.approx(4.0)


def test_who_has_long_been_silent_is_nobodys_neighbour() -> None:
    """Nor are the platform's own probes."""
    tenants = Tenants()
    for tenant in (ANN, PLATFORM):
        tenants.came(tenant, 0.0)
    assert not tenants.are_several(0.0)
    tenants.came(BOB, 1.0)
    assert tenants.are_several(1.0)
    tenants.came(BOB, 2.0 + ACTIVE_S)
    assert not tenants.are_several(2.0 + ACTIVE_S)
