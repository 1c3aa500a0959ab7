"""A street of the rollout site: four gateways of different kinds, and what tests of faults do and wait for there.

One gateway's clock is an hour ahead, one's an hour behind, one comes into the database by a role of its own, so that it
can be made deaf to tables, and one is as it should be.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import asyncpg
import httpx
import msgspec

from penstock.connectors.postgres import roles
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.roles import GATEWAY
from penstock.connectors.postgres.tables import PostgresTables
from penstock.domain.fleet.table import RoutingTable, Share
from penstock.domain.rollout.arms import ArmSecond
from penstock.judging.judge import LATE_S
from penstock.settings.stores import with_user
from penstock.telemetry.names import TABLE_NUMBER
from tests.support.failures.wrong_clock import wrong_by
from tests.support.gateways.shared_limits import Stub
from tests.support.patience import patient
from tests.support.platforms.readings import reading
from tests.support.platforms.rollouts import STAGES, Town, Traffic, town

HOUR_S = 3600.0
DELAY_MS = 40.0
SURE = 12
"""Answers of one gateway: led to two versions, so many users in a row are led to one by chance once in 4,096 times."""
LONG: list[dict[str, object]] = [dict(STAGES[0], min_s=900.0), *STAGES[1:]]
"""Half of the traffic for longer than any test."""
WHY: dict[str, object] = {"reason": "a fault is tried", "override_budget": True}
TELL = "insert into arm_second (told_at, body) values ($1, $2)"


@dataclass(frozen=True, kw_only=True)
class Street:
    """The town, and which gateway is which."""

    place: Town
    ahead: str
    behind: str
    deaf: str

    async def call(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401  JSON
        return await asyncio.to_thread(self.place.call, method, path, body)

    async def ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        return await asyncio.to_thread(self.place.ask, method, path, body)

    async def ask_until_told(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Ask again while the answer is that acts take too long."""
        end = time.monotonic() + patient(30.0)
        while (answer := await self.ask(method, path, body)).status_code == httpx.codes.SERVICE_UNAVAILABLE:
            assert time.monotonic() < end, answer.text
        return answer

    async def begin(self, **more: object) -> "Case":
        """Deploy a candidate as good as the incumbent, and start its rollout at half of the traffic."""
        await self._tidy()
        before = await asyncio.to_thread(self.place.asked_once)
        assert before
        await self._retire(before)
        engine = next(one for one in self.place.site.engines if one is not self.place.at[before])
        engine.behave(delay_ms=DELAY_MS)
        candidate = await asyncio.to_thread(self.place.version, engine)
        rollout = await asyncio.to_thread(lambda: self.place.start(candidate, **({"stages": LONG} | WHY | more)))
        return Case(before=before, candidate=candidate, engine=engine, id=rollout)

    async def _retire(self, before: str) -> None:
        """Turn off what earlier tests deployed: each worker reports ten times a second."""
        for version in [one for one in self.place.at if one != before]:
            await self.call("PUT", f"/deployments/{version}", {"replicas": 0})
            del self.place.at[version]

    async def _tidy(self) -> None:
        """End what a test before has left, so that one that fails hurts no other."""
        for engine in self.place.site.engines:
            engine.freeze(frozen=False)
            engine.behave(delay_ms=DELAY_MS)
        for one in (await self.call("GET", "/rollouts"))["rollouts"]:
            if one["state"] not in ("aborted", "done"):
                await self.call("POST", f"/rollouts/{one['id']}/abort", WHY)
        await becomes("the gateways agree", lambda: self.place.asked_once() != "")

    @asynccontextmanager
    async def hand(self) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
        """Yield a hand on the database, as its owner."""
        connection = await asyncpg.connect(self.place.site.postgres.dsn)
        try:
            yield connection
        finally:
            await connection.close()

    @asynccontextmanager
    async def held(self, statement: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
        """Keep a lock while the block runs."""
        async with self.hand() as connection, connection.transaction():
            await connection.execute(statement)
            yield connection


@dataclass(frozen=True, kw_only=True)
class Case:
    before: str
    candidate: str
    engine: Stub
    id: str

    @property
    def at(self) -> str:
        return f"/rollouts/{self.id}"


@contextmanager
def street() -> Iterator[Street]:
    """Run a town with its four gateways and an alias that leads to one version."""
    with town(gateways=1) as place:
        asyncio.run(_let_in(place.site.postgres.dsn))
        role = with_user(place.site.postgres.dsn, GATEWAY)
        skewed = "tests.support.failures.wrong_clock"
        ahead, behind = (place.site.start(program=skewed, **wrong_by(by)) for by in (HOUR_S, -HOUR_S))
        deaf = place.site.start(PENSTOCK_DATABASE_URL=role)
        for engine in place.site.engines:
            engine.behave(delay_ms=DELAY_MS)
        place.lead_to(place.version(place.site.engines[0]))
        yield Street(place=place, ahead=ahead, behind=behind, deaf=deaf)


async def _let_in(dsn: str) -> None:
    async with Database(dsn, max_connections=1) as database:
        await roles.grant(database, {GATEWAY: ""})


async def becomes(what: str, is_so: Callable[[], bool], *, within_s: float = 30.0) -> None:
    end = time.monotonic() + patient(within_s)
    while not is_so():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.05)


async def is_back(street: Street, case: Case, users: Traffic) -> None:
    """Wait until all gateways lead to the incumbent alone, and see that they go on so, without an error."""
    for gateway in street.place.site.gateways:
        await becomes(f"{gateway} is back", partial(_has_come_to, users, gateway, case.before))
    at = time.time()
    await all_say(users, at, street.place.site.gateways)
    assert ended(users, at) == {(200, case.before)}, users.heard(at)


def _has_come_to(users: Traffic, gateway: str, version: str) -> bool:
    asked = sorted([one for one in users.seen if one.gateway == gateway], key=lambda one: one.at)
    return [(one.status, one.version) for one in asked[-SURE:]] == [(200, version)] * SURE


async def all_say(users: Traffic, at: float, gateways: Iterable[str]) -> None:
    """Wait until each of these gateways has answered ``SURE`` requests that were sent after a moment."""

    def have_said() -> bool:
        return all(users.after(at, gateway).total() >= SURE for gateway in gateways)

    await becomes("they answer", have_said)


async def hear(street: Street, gateways: Iterable[str], is_so: Callable[[RoutingTable], bool]) -> None:
    """Wait until there is such a table, and these gateways have it, or one that is newer still."""
    end = time.monotonic() + patient(30.0)
    async with Database(street.place.site.postgres.dsn, max_connections=1) as database:
        while not is_so(table := await PostgresTables(database).latest()):
            assert time.monotonic() < end, "there is such a table"
            await asyncio.sleep(0.05)
    urls = [street.place.site.gateways[gateway].metrics_url for gateway in gateways]
    await becomes("they hear", lambda: all(reading(url, TABLE_NUMBER.name, {}) >= table.number for url in urls))


def leads_to(table: RoutingTable) -> set[str]:
    """Return the versions that a table leads callers to."""
    return {share.version for route in table.routes for share in route.shares if share.weight}


def served(table: RoutingTable) -> set[str]:
    return {one.id for one in table.versions if any(worker.state.serves for worker in one.workers)}


def ended(users: Traffic, after: float = 0.0) -> set[tuple[int, str]]:
    """Return status and version of the answers."""
    return {(one.status, one.version) for one in users.seen if one.at > after}


async def sees_both(case: Case, users: Traffic, gateways: tuple[str, ...]) -> None:
    """Wait until each of these gateways leads to both versions."""
    at = time.time()
    both = {case.before, case.candidate}
    await becomes("both are seen", lambda: all(both <= set(users.after(at, one)) for one in gateways))


async def samples(street: Street, at: str) -> dict[str, int]:
    """Return what the judge has counted, by metric."""
    judgement = (await street.call("GET", at))["judgement"]
    return {one["metric"]: one["sample"] for one in judgement["findings"]}


async def becomes_more(street: Street, at: str, before: dict[str, int]) -> None:
    """Wait until the judge has counted more than this: nothing that was told has blinded it."""
    end = time.monotonic() + patient(30.0)
    while (await samples(street, at)).get("bad", 0) <= before["bad"]:
        assert time.monotonic() < end, before
        await asyncio.sleep(0.2)


async def goes_on(street: Street, at: str, hand: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Let time pass for the judge: what was told counts when something is told seconds later, and has been read."""
    await asyncio.sleep(LATE_S + 2.0)  # a gateway's last second is told within one, and stands at a whole one
    now = await hand.fetchval("select extract(epoch from clock_timestamp())::float8")
    second = ArmSecond(gateway="nobody", life=str(time.time()), number=1, at=0)
    await hand.execute(TELL, time.time(), msgspec.json.encode(second).decode())
    end = time.monotonic() + patient(30.0)
    while (await street.call("GET", at))["judgement"]["at"] < now:
        assert time.monotonic() < end, "the judge has read it"
        await asyncio.sleep(0.2)


def absurd(body: str) -> Iterator[str]:
    """Yield this second with figures that can't be, each as of another gateway."""
    for figure in ("NaN", "-1", str(2**63), "1e400", "null", '"1"', "[]"):
        for name in ("good", "answers", "number", "at", "left_out"):
            told = msgspec.json.encode(msgspec.json.decode(body) | {"life": f"{figure} {name}"}).decode()
            yield re.sub(rf'"{name}":\d+', f'"{name}":{figure}', told)


async def newest_shares(street: Street) -> list[Share]:
    async with Database(street.place.site.postgres.dsn, max_connections=1) as database:
        (route,) = (await PostgresTables(database).latest()).routes
    return [share for share in route.shares if share.weight]


async def waits(hand: "asyncpg.Connection[asyncpg.Record]", least: int) -> None:
    """Wait until ``least`` sessions wait for a lock."""
    end = time.monotonic() + patient(30.0)
    while await hand.fetchval("select count(*) from pg_stat_activity where wait_event_type = 'Lock'") < least:
        assert time.monotonic() < end, f"{least} wait"
        await asyncio.sleep(0.05)
