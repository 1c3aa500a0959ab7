"""What every store of rollouts promises, held against memory and a real Postgres."""

import asyncio
from dataclasses import replace
from typing import NamedTuple

import pytest

from penstock.connectors.postgres.audit import PostgresAudit
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.registry import PostgresRegistry
from penstock.connectors.postgres.rollouts import PostgresRollouts
from penstock.control.registry.ports import RegistryStore
from penstock.control.rollout import steps
from penstock.control.rollout.rollouts import RolloutStore
from penstock.domain.errors import Conflict
from penstock.domain.fleet.table import Share
from penstock.domain.ids import Alias, VersionId
from penstock.domain.rollout.judgement import Judgement, Metric, MetricFinding, Verdict
from penstock.domain.rollout.rollout import Change, Rollout, State, Step, route_of
from penstock.domain.tenancy.audit import Act
from tests.twins.audit import MemoryAudit
from tests.twins.registry import MemoryRegistry
from tests.twins.rollouts import MemoryRollouts

OLD, NEW = VersionId("m@old"), VersionId("m@new")
ABORT = Judgement(
    version=NEW,
    at=5.0,
    verdict=Verdict.ABORT,
    findings=(MetricFinding(metric=Metric.BAD, verdict=Verdict.ABORT, strength=1.5, sample=9, says="bad: 9 of 9"),),
)


class House(NamedTuple):
    """The store, and what else it writes to."""

    rollouts: RolloutStore
    registry: RegistryStore
    audit: MemoryAudit | PostgresAudit


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def house(request: pytest.FixtureRequest) -> House:
    if request.param == "memory":
        audit = MemoryAudit()
        registry = MemoryRegistry(audit)
        return House(MemoryRollouts(registry), registry, audit)
    database: Database = request.getfixturevalue("database")
    return House(PostgresRollouts(database), PostgresRegistry(database), PostgresAudit(database))


def act(what: str, at: float = 1.0) -> Act:
    return Act(who="anna", what=f"rollout.{what}", target="r1", at=at)


def first(rollout: str = "r1", alias: str = "chat", at: float = 1.0) -> Step:
    began = Rollout(id=rollout, alias=Alias(alias), incumbent=OLD, candidate=NEW, began_at=at, since=at)
    change = Change(rollout=rollout, number=1, at=at, actor="anna", state=State.RUNNING, stage=0, says="a better one")
    return Step(rollout=began, change=change)


async def test_a_rollout_begins_with_its_route_its_history_and_its_act(house: House) -> None:
    """All of them are there together, and come back as they were written."""
    await house.rollouts.begin(first(), act("start"))
    (stored,) = await house.rollouts.live()
    assert (stored.rollout, stored.number) == (first().rollout, 1)
    assert await house.rollouts.one("r1") == stored
    assert await house.rollouts.history("r1") == (first().change,)
    (route,) = await house.registry.routes()
    assert route == route_of(first().rollout)
    assert route.shares == (Share(version=OLD, weight=10_000), Share(version=NEW, weight=0))
    assert [one.what for one in await house.audit.newest(10)] == ["rollout.start"]


async def test_an_alias_has_one_rollout_at_a_time(house: House) -> None:
    """The second is refused and leaves nothing behind; one of another alias, or after an end, begins."""
    await house.rollouts.begin(first(), act("start"))
    with pytest.raises(Conflict):
        await house.rollouts.begin(first("r2", at=2.0), act("start"))
    assert await house.rollouts.one("r2") is None
    assert await house.rollouts.history("r2") == ()
    assert len(await house.audit.newest(10)) == 1
    await house.rollouts.begin(first("r3", "other"), act("start"))
    await house.rollouts.go_on(steps.abort(first().rollout, 3.0, 2, "anna", "no"), act("abort"))
    await house.rollouts.begin(first("r2", at=4.0), act("start"))
    assert [one.rollout.id for one in await house.rollouts.live()] == ["r2", "r3"]
    assert [one.rollout.id for one in await house.rollouts.newest(2)] == ["r2", "r1"]


async def test_each_change_takes_the_route_along(house: House) -> None:
    """Aborted, the incumbent has the alias alone; the evidence stands in the history."""
    await house.rollouts.begin(first(), act("start"))
    promoted = steps.promote(first().rollout, 2.0, 2, "anna", "looked at it")
    await house.rollouts.go_on(promoted, act("promote"))
    assert [share.weight for share in (await house.registry.routes())[0].shares] == [9900, 100]
    mine = replace(promoted.rollout, by_person=False)
    aborted = steps.step(mine, steps.StepInputs(judgement=ABORT), 5.0, 3)
    assert aborted is not None
    await house.rollouts.go_on(aborted, act("abort"))
    assert (await house.registry.routes())[0].shares == (Share(version=OLD, weight=10_000),)
    assert [one.judgement for one in await house.rollouts.history("r1")] == [None, None, ABORT]
    assert await house.rollouts.live() == ()


async def test_of_two_at_the_same_moment_one_wins(house: House) -> None:
    """A person promotes while the judge aborts: the second is told to look again, and changes nothing."""
    await house.rollouts.begin(first(), act("start"))
    aborted = steps.step(first().rollout, steps.StepInputs(judgement=ABORT), 5.0, 2)
    assert aborted is not None
    promoted = steps.promote(first().rollout, 5.0, 2, "anna", "go")
    ended = await asyncio.gather(
        house.rollouts.go_on(aborted, act("abort")),
        house.rollouts.go_on(promoted, act("promote")),
        return_exceptions=True,
    )
    assert [type(one) for one in ended].count(Conflict) == 1
    assert len(await house.rollouts.history("r1")) == len(await house.audit.newest(10)) == 2
    won = aborted if ended[0] is None else promoted
    stored = await house.rollouts.one("r1")
    assert stored is not None
    assert (stored.rollout, stored.number) == (won.rollout, 2)


async def test_over_is_over_and_no_number_is_left_out(house: House) -> None:
    """Neither a change after the end nor one that skips another is taken."""
    await house.rollouts.begin(first(), act("start"))
    with pytest.raises(Conflict):
        await house.rollouts.go_on(steps.hold(first().rollout, 2.0, 3, "anna", "wait"), act("hold"))
    await house.rollouts.go_on(steps.abort(first().rollout, 2.0, 2, "anna", "no"), act("abort"))
    with pytest.raises(Conflict):
        await house.rollouts.go_on(steps.hold(first().rollout, 3.0, 3, "anna", "wait"), act("hold"))
    with pytest.raises(Conflict):
        await house.rollouts.go_on(steps.hold(replace(first().rollout, id="none"), 3.0, 2, "anna", "w"), act("hold"))
    assert len(await house.rollouts.history("r1")) == 2


@pytest.mark.integration
@pytest.mark.parametrize(
    "statement",
    [
        "update rollout_change set body = '{}'",
        "delete from rollout_change",
        "truncate rollout_change",
        "delete from rollout",
        "truncate rollout cascade",
        "update rollout set number = 7",
        "update rollout set alias = 'other', number = 2",
    ],
)
async def test_the_database_itself_keeps_the_history(database: Database, statement: str) -> None:
    """Not even a hand on the database quietly changes what was decided."""
    await PostgresRollouts(database).begin(first(), act("start"))
    with pytest.raises(Conflict):
        await database.rows(statement)
