"""Rollouts while something breaks: real controllers, gateways and Postgres, real signals; engines alone are stubs.

The four gateways are those of ``tests/support/platforms/rollout_faults.py``, two with wrong clocks among them.
"""

import asyncio
import math
import signal
import statistics
import time
from collections.abc import Iterator

import msgspec
import pytest

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.roles import GATEWAY
from penstock.domain.fleet.table import WEIGHT_TOTAL
from penstock.domain.rollout.arms import ArmSecond
from penstock.settings.stores import with_user
from tests.support.patience import patient
from tests.support.platforms import rollout_faults
from tests.support.platforms.rollout_faults import (
    DELAY_MS,
    HOUR_S,
    LONG,
    TELL,
    WHY,
    Street,
    absurd,
    all_say,
    becomes_more,
    ended,
    goes_on,
    hear,
    is_back,
    leads_to,
    newest_shares,
    samples,
    sees_both,
    served,
    waits,
)
from tests.support.platforms.rollouts import STAGES, USERS, comes_to, traffic

ROUNDS = (4, pytest.param(16, marks=pytest.mark.drill))
UNDONE_WITHIN_S = 1.0
DEAF = "revoke select on routing_table from penstock_gateway"
HEARS = "grant select on routing_table to penstock_gateway"


@pytest.fixture(scope="module")
def street() -> Iterator[Street]:
    with rollout_faults.street() as running:
        yield running


async def test_copies_that_are_all_shed_promote_nobody_and_hurt_nobody(street: Street) -> None:
    """A candidate that is too busy for copies has no evidence: it is held when its patience ends, unseen by callers."""
    unseen = {"stages": [{"name": "shadow", "weight": 0, "min_s": 1.0}, *STAGES], "patience_s": 4.0}
    case = await street.begin(
        **unseen, shadow={"per_s": 30.0, "tokens_per_s": 1e5, "at_once": 64, "scored_per_s": 10.0}
    )
    case.engine.behave(mode="refuse", reason="overloaded")
    async with traffic(street.place) as users:
        over = await comes_to(street.place, case.id, "held", "aborted", "done")
    assert (over["state"], over["stage"]) == ("held", 0), over["history"]
    assert over["history"][-1]["judgement"] is None or over["history"][-1]["judgement"]["verdict"] == "wait"
    assert ended(users) == {(200, case.before)}, users.heard()
    assert case.engine.stats["requests"] > 0
    await street.call("POST", f"{case.at}/abort", WHY)


async def test_evidence_that_comes_twice_or_absurd_counts_for_nothing(street: Street) -> None:
    """Rows again, with other figures too, or with figures that can't be: the judge has counted what it had."""
    case = await street.begin()
    async with traffic(street.place) as users:
        await sees_both(case, users, tuple(street.place.site.gateways))
        await becomes_more(street, case.at, {"bad": 0})
    async with street.hand() as hand:
        await goes_on(street, case.at, hand)
        before = await samples(street, case.at)
        assert before["bad"] > 0
        rows = [row["body"] for row in await hand.fetch("select body from arm_second order by id desc limit 40")]
        first = next(body for body in rows if case.candidate in body)
        worse = [body.replace('"good":', '"bad":999,"good":') for body in rows]
        for body in [*rows, *worse, *absurd(first)]:
            await hand.execute(TELL, time.time(), body)
        await goes_on(street, case.at, hand)
        assert await samples(street, case.at) == before
    async with traffic(street.place):
        await becomes_more(street, case.at, before)
    now = await street.call("GET", case.at)
    assert now["state"] in ("running", "frozen"), now["history"]
    await street.call("POST", f"{case.at}/abort", WHY)


async def test_a_gateway_of_yesterday_undoes_nobody(street: Street) -> None:
    """It was frozen while one rollout ended and another began: awake, it follows the others' table, and undoes
    nothing.
    """
    case = await street.begin()
    frozen = street.place.site.gateways[street.behind].process
    async with traffic(street.place) as users:
        await sees_both(case, users, (street.behind,))
        frozen.send_signal(signal.SIGSTOP)
        await street.call("POST", f"{case.at}/abort", WHY)
        again = await asyncio.to_thread(lambda: street.place.start(case.candidate, stages=LONG, **WHY))
        await asyncio.sleep(2.0)
        frozen.send_signal(signal.SIGCONT)
        await sees_both(case, users, tuple(street.place.site.gateways))
        await becomes_more(street, f"/rollouts/{again}", {"bad": 0})
        await asyncio.sleep(3.0)
        now = await asyncio.to_thread(street.place.look, again)
        assert now["state"] in ("running", "frozen"), now["history"]
        await street.call("POST", f"/rollouts/{again}/abort", WHY)
        await is_back(street, case, users)


async def test_clocks_an_hour_apart_neither_hide_nor_invent_evidence(street: Street) -> None:
    """Told by gateways an hour ahead and behind alone, a broken candidate is found, and a good one is not undone."""
    both = (street.ahead, street.behind)
    case = await street.begin()
    async with traffic(street.place, gateways=both) as users:
        await sees_both(case, users, both)
        await becomes_more(street, case.at, {"bad": 0})
        assert (await street.call("GET", case.at))["state"] in ("running", "frozen")
        case.engine.behave(mode="error", status=500)
        over = await comes_to(street.place, case.id, "aborted", within_s=30.0)
    assert "bad: " in over["history"][-1]["says"]


async def test_a_controller_an_hour_ahead_undoes_what_is_broken(street: Street) -> None:
    """It starts a rollout at a time that has not come yet: evidence counts by the database's clock, not by its own."""
    street.place.home.controllers[-1].kill()
    await asyncio.to_thread(street.place.lead, HOUR_S)
    case = await street.begin()
    async with traffic(street.place) as users:
        await sees_both(case, users, tuple(street.place.site.gateways))
        case.engine.behave(mode="error", status=500)
        over = await comes_to(street.place, case.id, "aborted", within_s=30.0)
        assert "bad: " in over["history"][-1]["says"]
        street.place.home.controllers[-1].kill()
        await asyncio.to_thread(street.place.lead)
        await is_back(street, case, users)


async def test_a_controller_that_dies_between_verdict_and_table_is_no_way_out(street: Street) -> None:
    """The verdict is written and no table follows, since the controller dies there: the next leader publishes it."""
    case = await street.begin()
    async with traffic(street.place) as users:
        await sees_both(case, users, tuple(street.place.site.gateways))
        async with street.held("lock table routing_table in share row exclusive mode") as hand:
            case.engine.behave(mode="error", status=500)
            await comes_to(street.place, case.id, "aborted")
            await asyncio.sleep(1.0)
            assert case.candidate in {share.version for share in await newest_shares(street)}
            street.place.home.controllers[-1].kill()
            await hand.execute("select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'")
        assert case.candidate in {share.version for share in await newest_shares(street)}
        await asyncio.to_thread(street.place.lead)
        await is_back(street, case, users)
    assert [share.version for share in await newest_shares(street)] == [case.before]
    assert street.place.acts(case.id).count("rollout.abort") == 1


async def test_a_database_that_is_down_at_the_abort_delays_it_and_loses_nothing(street: Street) -> None:
    """A person's abort is refused as unavailable, and the judge's waits; when it is back, one of them is written."""
    case = await street.begin()
    async with traffic(street.place) as users:
        await sees_both(case, users, tuple(street.place.site.gateways))
        lost = asyncio.create_task(street.place.site.lose_ledger(5.0))
        await asyncio.sleep(0.5)
        case.engine.behave(mode="error", status=500)
        refused = await street.ask("POST", f"{case.at}/abort", WHY)
        assert refused.status_code == 503, refused.text
        await lost
        over = await comes_to(street.place, case.id, "aborted")
        await is_back(street, case, users)
    assert [one["number"] for one in over["history"]] == list(range(1, len(over["history"]) + 1))
    assert street.place.acts(case.id)[-1] == "rollout.abort"
    assert street.place.acts(case.id).count("rollout.abort") == 1


async def test_a_gateway_that_is_deaf_to_tables_serves_until_it_hears(street: Street) -> None:
    """It leads to the candidate still, which runs on; when that dies, its own brake leads to the incumbent."""
    place, deaf = street.place, street.deaf
    case = await street.begin()
    others = tuple(one for one in place.site.gateways if one != deaf)
    async with traffic(place, pause_s=2.0) as users:
        await sees_both(case, users, tuple(place.site.gateways))
        async with street.hand() as hand:
            await hand.execute(DEAF)
            await street.call("POST", f"{case.at}/abort", WHY)
            await hear(street, others, lambda table: leads_to(table) == {case.before})
            at = time.time()
            await all_say(users, at, place.site.gateways)
            assert {version for one in others for version in users.after(at, one)} == {case.before}
            assert set(users.after(at, deaf)) == {case.before, case.candidate}, users.heard(at)
            case.engine.behave(mode="reset")
            await is_back(street, case, users)  # its brake is on
            await hand.execute(HEARS)
            # Before the candidate is well: else its brake lets go, rightly.
            await hear(street, (deaf,), lambda table: leads_to(table) == {case.before})
        case.engine.behave(delay_ms=DELAY_MS)
        await is_back(street, case, users)


async def test_of_a_person_who_promotes_and_a_judge_who_aborts_one_is_first(street: Street) -> None:
    """Both wait for the same row: one is written, the other one looks again, and the history has each step once."""
    case = await street.begin()
    async with traffic(street.place) as users:
        await sees_both(case, users, tuple(street.place.site.gateways))
        async with street.held("select 1 from rollout for update") as hand:
            case.engine.behave(mode="error", status=500)
            await waits(hand, 1)
            promoted = asyncio.create_task(street.ask("POST", f"{case.at}/promote", WHY))
            await asyncio.sleep(1.0)  # it waits for the row, or for the judge's act before it
        answer = await promoted
        over = await comes_to(street.place, case.id, "aborted", "running")
        if answer.status_code == 200:  # the person was first: the judge proposes, and the person undoes
            assert (over["state"], over["by_person"], over["weight"]) == ("running", True, WEIGHT_TOTAL)
            await street.call("POST", f"{case.at}/abort", WHY)
        else:
            assert (answer.status_code, over["state"]) == (409, "aborted"), answer.text
        await is_back(street, case, users)
    history = (await street.call("GET", case.at))["history"]
    assert [one["number"] for one in history] == list(range(1, len(history) + 1))
    assert [one["state"] for one in history].count("aborted") == 1


async def test_aborts_during_an_abort_are_one_abort(street: Street) -> None:
    """Of five people at a row, who ask again if acts take too long, one has done it; the others hear it is over."""
    case = await street.begin()
    async with traffic(street.place) as users:
        await sees_both(case, users, tuple(street.place.site.gateways))
        async with street.held("select 1 from rollout for update") as hand:
            aborts = [asyncio.create_task(street.ask_until_told("POST", f"{case.at}/abort", WHY)) for _ in range(5)]
            await waits(hand, 1)  # acts go one at a time: the others wait for it and not for the row
        answers = await asyncio.gather(*aborts)
        await is_back(street, case, users)
    assert sorted(one.status_code for one in answers) == [200, 409, 409, 409, 409]
    assert street.place.acts(case.id).count("rollout.abort") == 1


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_four_gateways_are_undone_within_a_second(street: Street, rounds: int) -> None:
    """From the verdict to the last new request on the candidate, by gateway, over some rollouts; prints the figures."""
    # A request is new when its engine begins, which is its delay before its answer, and later than when it was sent.
    took = list[float]()
    case = await street.begin()
    async with traffic(street.place, pause_s=1.0) as users:
        for number in range(rounds):
            rollout = case.id
            if number:
                rollout = await asyncio.to_thread(lambda: street.place.start(case.candidate, stages=LONG, **WHY))
            await sees_both(case, users, tuple(street.place.site.gateways))
            over = await street.call("POST", f"/rollouts/{rollout}/abort", WHY)
            at = over["since"]
            await hear(street, street.place.site.gateways, lambda table: leads_to(table) == {case.before})
            await asyncio.sleep(DELAY_MS / 1e3 + 0.5)  # who was sent there has its answer
            for gateway in street.place.site.gateways:
                ended = [one.ended for one in users.seen if (one.gateway, one.version) == (gateway, case.candidate)]
                took.append(max(0.0, max(ended) - DELAY_MS / 1e3 - at))
    took.sort()
    p99 = took[math.ceil(0.99 * len(took)) - 1]
    print(f"verdict to last new request: median {statistics.median(took):.3f} s, p99 {p99:.3f} s of {len(took)}")  # noqa: T201
    assert p99 <= patient(UNDONE_WITHIN_S)
    assert set(users.statuses()) == {200}, users.heard()


async def test_forged_seconds_of_another_time_blind_nobody(street: Street) -> None:
    """A hand tells a second as of next year: it gets the database's time, and the judge goes on."""
    case = await street.begin()
    async with traffic(street.place) as users:
        await sees_both(case, users, tuple(street.place.site.gateways))
        async with Database(with_user(street.place.site.postgres.dsn, GATEWAY), max_connections=1) as database:
            for at in (time.time() + 3e7, 1e300, -1.0):
                second = ArmSecond(gateway="forged", life=str(at), number=1, at=1)
                await database.rows(TELL, at, msgspec.json.encode(second).decode())
        case.engine.behave(mode="error", status=500)
        await comes_to(street.place, case.id, "aborted", within_s=30.0)
        await is_back(street, case, users)


async def test_a_candidate_that_freezes_with_its_agent_hurts_whom_it_has_alone(street: Street) -> None:
    """SIGSTOP on both, as of a machine that stands still: its silence tells in seconds, and no new request waits
    for it.
    """
    case = await street.begin()
    async with traffic(street.place) as users:
        await sees_both(case, users, tuple(street.place.site.gateways))
        at = time.time()
        case.engine.freeze(frozen=True)
        street.place.signal_agents(case.candidate, signal.SIGSTOP)
        engine = street.place.at.pop(case.candidate)
        street.place.name_engines()  # its successor, on the same machine, would not get an engine either
        try:
            # Whoever it has hangs, and asks for nothing more.
            await hear(street, street.place.site.gateways, lambda table: case.candidate not in served(table))
            async with traffic(street.place, first=USERS) as others:
                over = await comes_to(street.place, case.id, "aborted", within_s=30.0)
                await is_back(street, case, others)
                assert ended(others) == {(200, case.before)}, others.heard()
        finally:
            case.engine.freeze(frozen=False)
            street.place.at[case.candidate] = engine
            street.place.name_engines()
            street.place.signal_agents(case.candidate, signal.SIGCONT)
    print(f"both frozen: aborted after {over['history'][-1]['at'] - at:.1f} s, {users.statuses(at)}")  # noqa: T201
    assert "bad: " in over["history"][-1]["says"]


@pytest.mark.drill
async def test_a_candidate_that_freezes_is_undone(street: Street) -> None:
    """SIGSTOP, while its agent says that it is well: what hangs until its deadline tells, after two minutes."""
    case = await street.begin()
    async with traffic(street.place) as users:
        await sees_both(case, users, tuple(street.place.site.gateways))
        case.engine.freeze(frozen=True)
        at = time.time()
        try:
            over = await comes_to(street.place, case.id, "aborted", within_s=150.0)
            await is_back(street, case, users)
        finally:
            case.engine.freeze(frozen=False)
    print(f"frozen: aborted after {over['history'][-1]['at'] - at:.1f} s, {users.statuses(at)}")  # noqa: T201
    assert over["history"][-1]["judgement"]["verdict"] == "abort"
