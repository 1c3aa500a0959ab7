"""A tick of the rollouts: from the evidence to the stored change and the alias's route."""

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from penstock.apps import slos
from penstock.capacity.memory import sizes
from penstock.control.registry.registry import Registry
from penstock.control.rollout import steps
from penstock.control.rollout.advance import Advance, needed
from penstock.control.rollout.shown import RolloutMetrics
from penstock.domain.fleet.decision import Decision
from penstock.domain.fleet.table import Share
from penstock.domain.fleet.versions import Catalogue, Deployment
from penstock.domain.ids import VersionId
from penstock.domain.models.model import Tier
from penstock.domain.rollout.rollout import STAGES, Change, Rollout, State, Step, Stored
from penstock.domain.tenancy.audit import Act
from penstock.judging.comparisons import Comparisons
from penstock.telemetry.metrics import Metrics
from tests.support.gateways.simulated_arms import ALIAS, NEW, OLD, Regression, World
from tests.support.samples import adapter_versions
from tests.support.samples import control_plane as things
from tests.twins.audit import MemoryAudit
from tests.twins.registry import MemoryRegistry
from tests.twins.rollouts import MemoryRollouts

SEEN = tuple(things.seen(things.report(f"w-{version}", version)) for version in (OLD, NEW))
KNOWN = Catalogue(versions=tuple(replace(things.version(), id=version) for version in (OLD, NEW)))
START = Rollout(id="r1", alias=ALIAS, incumbent=OLD, candidate=NEW, stages=STAGES[1:], stage=2)


class House:
    """The stage with real judges and a store in memory; versions of one tier."""

    def __init__(self) -> None:
        self.audit = MemoryAudit()
        self.registry = MemoryRegistry(self.audit)
        self.store = MemoryRollouts(self.registry)
        self.judges = Comparisons(slos.gates)
        self.is_spent, self.asked = False, list[Tier]()
        self.versions = {OLD, NEW}
        self.decided = list[Decision]()
        self.metrics = Metrics()
        self.stage = Advance(
            store=self.store,
            judges=self.judges,
            replicas=Registry(self.registry),
            budget_spent=self.budget_spent,
            shown=RolloutMetrics(self.metrics),
        )

    async def budget_spent(self, tier: Tier, versions: Mapping[VersionId, Tier]) -> bool:
        assert set(versions) == self.versions
        self.asked.append(tier)
        return self.is_spent

    async def begin(self, rollout: Rollout = START) -> None:
        change = Change(
            rollout="r1", number=1, at=0.0, actor="anna", state=rollout.state, stage=rollout.stage, says="go"
        )
        act = Act(who="anna", what="rollout.start", target="r1", at=0.0)
        await self.store.begin(Step(rollout=rollout, change=change), act)

    async def play(self, world: World, seconds: int) -> float:
        """Tick each second until it is over or so many have gone by; return the last one."""
        for second in world.seconds(seconds):
            self.judges.take(second, float(second.at))
            self.decided += await self.stage.advance(KNOWN, SEEN, float(second.at))
            if not await self.store.live():
                return float(second.at)
        return math.inf

    async def now(self) -> Rollout:
        stored = await self.store.one("r1")
        assert stored is not None
        return stored.rollout


class Behind(MemoryRollouts):
    """Reads what was before a person acted."""

    def __init__(self, house: House, stale: tuple[Stored, ...]) -> None:
        self._house, self._stale = house, stale

    async def live(self) -> tuple[Stored, ...]:
        return self._stale

    async def go_on(self, step: Step, act: Act) -> None:
        await self._house.store.go_on(step, act)


@pytest.fixture
def house() -> House:
    return House()


async def test_a_broken_candidate_has_nothing_left_within_seconds(house: House) -> None:
    """Verdict, change, route and act are one; the incumbent has the alias alone."""
    await house.begin()
    ended = await house.play(World(seed=1, per_s=40.0, share=0.25, regression=Regression(bad=1.0)), 60)
    assert ended < 15.0
    assert (await house.now()).state is State.ABORTED
    assert (await house.registry.routes())[0].shares == (Share(version=OLD, weight=10_000),)
    assert [one.what for one in await house.audit.newest(5)] == ["rollout.abort", "rollout.start"]
    assert "bad: " in (await house.store.history("r1"))[-1].says


@pytest.mark.parametrize(
    ("rollout", "what"),
    [(START, "rollout.abort"), (replace(START, by_person=True), "rollout.propose")],
    ids=["automation", "a person promoted it"],
)
async def test_what_automation_did_is_a_decision_with_its_figures(house: House, rollout: Rollout, what: str) -> None:
    """Which rollout, what was said and against what: an abort that nobody set, and one that is only proposed."""
    await house.begin(rollout)
    await house.play(World(seed=1, per_s=40.0, share=0.25, regression=Regression(bad=1.0)), 10)
    (decided,) = [one for one in house.decided if one.what != "rollout.hold"]
    assert (decided.what, decided.target, decided.signal) == (what, "chat", "judgement")
    assert decided.value.startswith(f"r1, {NEW}: abort: ")
    assert "bad: " in decided.value


async def test_a_good_candidate_comes_to_the_next_share_by_proof(house: House) -> None:
    """And asks for a new proof there."""
    await house.begin()
    await house.play(World(seed=2, per_s=40.0, share=0.25), 240)
    assert (await house.now()).stage == 3
    promoted = (await house.store.history("r1"))[1]
    assert promoted.judgement is not None
    assert [one.what for one in await house.audit.newest(1)] == ["rollout.promote"]


async def test_a_person_who_was_first_wins(house: House) -> None:
    """The tick that lost its turn changes nothing, and the next one goes on from what the person did."""
    await house.begin()
    behind = replace(house.stage, store=Behind(house, await house.store.live()))
    held = steps.hold(START, 1.0, 2, "anna", "wait")
    await house.store.go_on(held, things.act("rollout.hold"))
    house.is_spent = True
    assert not await behind.advance(KNOWN, SEEN, 100.0)
    assert await house.now() == held.rollout


async def test_an_end_is_counted_whoever_made_it(house: House) -> None:
    """A person's abort between two ticks is seen by the next one, once."""
    await house.begin()
    await house.stage.advance(KNOWN, SEEN, 0.5)
    await house.store.go_on(steps.abort(START, 1.0, 2, "anna", "no"), things.act("rollout.abort"))
    for now in (1.5, 2.0):
        await house.stage.advance(KNOWN, SEEN, now)
    said = house.metrics.exposition().decode()
    assert 'penstock_rollout_ends_total{model="chat",state="aborted"} 1.0' in said
    assert "penstock_rollouts{" not in said


async def test_a_spent_budget_freezes_what_runs(house: House) -> None:
    """The tier's budget is asked for, by the versions of the catalogue."""
    await house.begin()
    house.is_spent = True
    assert await house.stage.advance(KNOWN, SEEN, 1.0)
    assert (await house.now()).state is State.FROZEN
    assert house.asked == [Tier.CHAT]


async def test_a_proven_candidate_gets_the_workers_of_its_next_share_first(house: House) -> None:
    """Four serve the incumbent: half of that is two, asked for once, and the share moves when they serve."""
    deployed = Deployment(version=NEW, replicas=1)
    house.registry = MemoryRegistry(house.audit)
    for one in KNOWN.versions:
        await house.registry.add_version(one, "signature", things.act())
    await house.registry.put_deployment(deployed, things.act())
    house.stage = replace(house.stage, replicas=Registry(house.registry))
    await house.begin()
    four = tuple(
        things.seen(replace(things.report(f"w{number}", OLD), cached=(NEW,) * bool(number))) for number in range(4)
    )
    for second in World(seed=2, per_s=40.0, share=0.25).seconds(240):
        house.judges.take(second, float(second.at))
        known = replace(KNOWN, deployments=await house.registry.deployments())
        await house.stage.advance(known, (*four, SEEN[1]), float(second.at))
    assert await house.registry.deployments() == (replace(deployed, replicas=2),)
    assert (await house.now()).stage == 2
    grown = [one for one in await house.audit.newest(9) if one.what == "rollout.grow"]
    lacks = steps.StepInputs(unfetched=1)
    assert [one.detail for one in grown] == [
        f"chat: 2 workers for the next share, 1 before{steps.without_files(lacks)}"
    ]


async def test_workers_that_would_not_fit_stop_no_tick(house: House) -> None:
    """A pinned candidate that may not grow stays at its share, and everything else goes on."""
    deployed = Deployment(version=NEW, replicas=1, pinned=True)
    house.registry = MemoryRegistry(house.audit)
    for one in KNOWN.versions:
        await house.registry.add_version(one, "signature", things.act())
    await house.registry.put_deployment(deployed, things.act())
    room_for_one = max(sizes(KNOWN.versions).values())
    house.stage = replace(house.stage, replicas=Registry(house.registry, pool_bytes=room_for_one))
    await house.begin()
    four = tuple(things.seen(things.report(f"w{number}", OLD)) for number in range(4))
    for second in World(seed=2, per_s=40.0, share=0.25).seconds(240):
        house.judges.take(second, float(second.at))
        known = replace(KNOWN, deployments=await house.registry.deployments())
        await house.stage.advance(known, (*four, SEEN[1]), float(second.at))
    assert await house.registry.deployments() == (deployed,)
    assert house.stage.moving() == {OLD: NEW}


async def test_an_adapter_goes_on_with_its_bases_workers(house: House) -> None:
    """They serve both versions, so nobody is asked for; with none of them it goes nowhere."""
    base = adapter_versions.BASE
    both = tuple(replace(adapter_versions.version(seed=seed), id=version) for version, seed in ((OLD, "e"), (NEW, "d")))
    on = tuple(Deployment(version=one.id, replicas=1) for one in (base, *both))
    known = Catalogue(versions=(base, *both), deployments=on)
    house.versions = {base.id, OLD, NEW}
    await house.begin()
    four = tuple(things.seen(things.report(f"w{number}", base.id)) for number in range(4))
    for second in World(seed=2, per_s=40.0, share=0.25).seconds(240):
        house.judges.take(second, float(second.at))
        await house.stage.advance(known, four if second.at > 120 else (), float(second.at))
        assert (await house.now()).stage == 2 or second.at > 120
    assert (await house.now()).stage > 2
    assert not [one for one in await house.audit.newest(9) if one.what == "rollout.grow"]


def test_workers_follow_the_share() -> None:
    """A share needs the part of the incumbent's workers that it is, and one at least."""
    assert [needed(replace(START, stage=stage), 8) for stage in range(6)] == [1, 2, 4, 8, 8, 8]
    assert needed(START, 0) == 1
