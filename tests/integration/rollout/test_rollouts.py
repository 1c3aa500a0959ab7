"""Rollouts on real processes: a controller, two gateways, Postgres, users; engines alone are stubs."""

import asyncio
import time
from collections.abc import Iterator
from functools import partial

import pytest

from tests.support.platforms.rollout_faults import becomes
from tests.support.platforms.rollouts import STAGES, Town, comes_to, town, traffic

DELAY_MS = 40.0
UNSEEN: dict[str, object] = {
    "stages": [{"name": "shadow", "weight": 0, "min_s": 1.0}, *STAGES],
    "shadow": {"per_s": 30.0, "tokens_per_s": 1e5, "at_once": 64, "scored_per_s": 10.0},
}
"""Copies alone at first, at a pace that a test can wait for."""


@pytest.fixture(scope="module")
def place() -> Iterator[Town]:
    """Yield a site with an alias that leads to one version."""
    with town() as running:
        for engine in running.site.engines:
            engine.behave(delay_ms=DELAY_MS)
        running.lead_to(running.version(running.site.engines[0]))
        yield running


@pytest.mark.drill
async def test_a_good_candidate_takes_everything_over(place: Town) -> None:
    """Unseen, half, all, watched, done: by proof, without an error, each step with its reason."""
    before = await asyncio.to_thread(place.asked_once)
    candidate = await asyncio.to_thread(place.version, place.site.engines[1])
    rollout = await asyncio.to_thread(partial(place.start, candidate, **UNSEEN))
    async with traffic(place) as users:
        done = await comes_to(place, rollout, "done", "held", "aborted", within_s=300.0)
    assert (done["state"], done["incumbent"]) == ("done", before), done["history"]
    assert [one["stage"] for one in done["history"]] == [0, 1, 2, 3, 3]
    assert done["history"][1]["judgement"]["verdict"] == "promote"
    assert place.acts(rollout) == ["rollout.start", *["rollout.promote"] * 3, "rollout.done"]
    assert set(users.statuses()) == {200}
    assert await asyncio.to_thread(place.asked_once) == candidate


async def test_a_candidate_that_answers_otherwise_is_aborted_before_a_caller_has_seen_it(place: Town) -> None:
    """Its copies are answered well and as fast, what it holds for likely is another thing, and the platform pays."""
    before = await asyncio.to_thread(place.asked_once)
    engine = next(one for one in place.site.engines if one is not place.at[before])
    # Longer than keys stay unchecked: copies have none, and are not ended for that.
    engine.behave(delay_ms=1500.0, likeliest=8)
    candidate = await asyncio.to_thread(place.version, engine)
    rollout = await asyncio.to_thread(partial(place.start, candidate, **UNSEEN))
    async with traffic(place) as users:
        over = await comes_to(place, rollout, "aborted", "held", "done")
    assert (over["state"], over["stage"]) == ("aborted", 0), over["history"]
    assert over["history"][-1]["says"].startswith("answers: 100.0% of the tokens of")
    assert set(users.after(0.0)) == {before}
    assert set(users.statuses()) == {200}
    assert engine.stats["requests"] > 0
    engine.behave(delay_ms=DELAY_MS)
    bill = await asyncio.to_thread(place.bill, candidate)
    assert bill.pop("_shadow") > 0
    assert not any(bill.values())


async def test_a_broken_candidate_is_undone_though_controller_and_database_die(place: Town) -> None:
    """The controller is killed with the verdict just written, and the database after it: no request is led there
    again.
    """
    before = await asyncio.to_thread(place.asked_once)
    engine = next(one for one in place.site.engines if one is not place.at[before])
    engine.behave(delay_ms=DELAY_MS)
    candidate = await asyncio.to_thread(place.version, engine)
    rollout = await asyncio.to_thread(place.start, candidate)
    async with traffic(place) as users:
        await asyncio.sleep(2.0)
        engine.behave(mode="error", status=500)
        await comes_to(place, rollout, "aborted", "held")
        place.home.controllers[-1].kill()
        await place.site.lose_ledger(1.0)
        await asyncio.to_thread(place.lead)
        await comes_to(place, rollout, "aborted")
        await becomes("all are led back", lambda: set(users.after(time.time() - 1.5)) == {before})
        at = time.time()
        await asyncio.sleep(2.0)
        assert set(users.after(at)) == {before}
    over = await asyncio.to_thread(place.look, rollout)
    assert place.acts(rollout) == ["rollout.start", "rollout.abort"]
    assert "bad: " in over["history"][-1]["says"]
    assert await asyncio.to_thread(place.asked_once) == before


async def test_a_person_who_promotes_while_the_judge_would_abort_is_asked_and_not_overruled(place: Town) -> None:
    """What a person promoted stays, and the history says what automation would do; the person's abort is at once."""
    before = await asyncio.to_thread(place.asked_once)
    engine = next(one for one in place.site.engines if one is not place.at[before])
    engine.behave(delay_ms=DELAY_MS)
    candidate = await asyncio.to_thread(place.version, engine)
    # The candidate before it has spent the error budget.
    why = {"reason": "slower is agreed", "override_budget": True}
    rollout = await asyncio.to_thread(partial(place.start, candidate, **why))
    await asyncio.to_thread(place.call, "POST", f"/rollouts/{rollout}/promote", why)
    async with traffic(place):
        await asyncio.sleep(3.0)
        now = await asyncio.to_thread(place.look, rollout)
        assert (now["by_person"], now["weight"]) == (True, 10_000)
        engine.behave(mode="error", status=500)
        await becomes("an abort is proposed", lambda: bool(place.look(rollout)["proposed"]), within_s=60.0)
        now = await asyncio.to_thread(place.look, rollout)
        assert (now["state"], now["proposed"]) == ("running", True)
        assert now["history"][-1]["says"].startswith(
            "a person promoted it, so nothing is undone; automation would abort it"
        )
        over = await asyncio.to_thread(place.call, "POST", f"/rollouts/{rollout}/abort", {"reason": "then not"})
    assert over["state"] == "aborted"
    engine.behave(delay_ms=DELAY_MS)
