"""Rollouts from one adapter to the next, over the operators' API: on their base's workers, and beside nobody else's."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from penstock.domain.ids import ModelName
from tests.support.clock import ManualClock
from tests.support.controllers.in_memory import Room
from tests.support.controllers.rollouts import WHY, Site, chat
from tests.support.samples import adapter_versions


@pytest.fixture
async def site(clock: ManualClock) -> AsyncIterator[Site]:
    """Yield an alias at one version, and an operator."""
    async with chat(Room(clock)) as found:
        yield found


async def test_an_adapter_follows_another_of_its_base(site: Site) -> None:
    """With the base's worker and none of its own; the base itself may follow, too, and end it."""
    base = await site.version(adapter_versions.BASE.manifest)
    old, new = [await site.adapter(adapter_versions.manifest(seed=seed)) for seed in "ed"]
    await site.lead(old)
    started = await site.start(new)
    assert (started.status_code, started.json()["incumbent"]) == (201, old)
    tick = await site.room.loop.tick()
    assert {one.id: one.base for one in tick.table.versions if one.base} == {old: base, new: base}
    assert {one.version for one in tick.deployments} & {old, new} == set()
    refused = await site.operator.put(f"/admin/v1/deployments/{new}", json={"replicas": 0})
    assert "takes part in the rollout" in refused.text
    await site.operator.post(f"/admin/v1/rollouts/{started.json()['id']}/abort", json=WHY)
    assert (await site.start(base)).status_code == 201


async def test_an_adapter_of_another_base_can_not_follow(site: Site) -> None:
    """Nor a model of its own weights, nor an adapter after such a one: other workers would serve it."""
    (plain,) = await site.shares()
    other = adapter_versions.version_of(replace(adapter_versions.BASE.manifest, name=ModelName("other")))
    for manifest in (adapter_versions.BASE.manifest, other.manifest):
        await site.version(manifest)
    mine = await site.adapter(adapter_versions.manifest())
    theirs = await site.adapter(adapter_versions.manifest(base=other))
    for incumbent, candidate in ((mine, theirs), (mine, plain), (plain, mine)):
        await site.lead(incumbent)
        refused = await site.start(candidate, kind="different")
        assert (refused.status_code, "adapters are rolled out on one base" in refused.text) == (400, True)


async def test_an_adapter_that_is_off_or_without_a_worker_can_not_follow(site: Site) -> None:
    """As any version: nobody could answer."""
    base = await site.version(adapter_versions.BASE.manifest, workers=0)
    await site.operator.put(f"/admin/v1/deployments/{base}", json={"replicas": 1})
    old, new = [await site.adapter(adapter_versions.manifest(seed=seed), on=seed == "e") for seed in "ed"]
    await site.lead(old)
    assert "is not deployed" in (await site.start(new)).text
    await site.operator.put(f"/admin/v1/deployments/{new}", json={"replicas": 1})
    assert f"no worker of {new} serves yet" in (await site.start(new)).text
