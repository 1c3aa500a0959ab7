"""Any order of ends, cancels, pauses, deaths and time: output + error = total, and each ``custom_id`` once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.connectors.postgres.database import Database
from penstock.domain.errors import Conflict
from penstock.domain.ids import TenantId
from penstock.domain.jobs.batch import Batch
from penstock.domain.jobs.ids import RunnerId
from penstock.domain.jobs.job import Job, JobState, Reason
from tests.support.clock import ManualClock
from tests.support.jobs.batches import BatchSite, line

pytestmark = pytest.mark.integration
ACTS = (
    *("claim", "answer", "refuse", "fail", "put back", "late answer"),
    *("cancel", "pause", "resume", "step", "other step", "die", "minute", "day"),
)
LINES = 7


@dataclass
class Life:
    """A batch between two runners, and what runners hold of it."""

    site: BatchSite
    batch: Batch
    runners: list[RunnerId]
    held: list[Job] = field(default_factory=list)
    lost: list[Job] = field(default_factory=list)

    async def do(self, act: str, number: int) -> None:
        if act in ("cancel", "pause", "resume"):
            await self._ask(act)
        elif act in ("step", "other step"):
            await self.site.step(self.runners[act != "step"])
        elif act in ("minute", "day"):
            self.site.clock.advance(60.0 if act == "minute" else 86_400.0)
        else:
            await self._run(act, number)

    async def _run(self, act: str, number: int) -> None:
        site = self.site
        match act:
            case "claim":
                self.held += await site.claim(self.runners[0], number)
            case "answer" | "refuse":
                await site.answer(self._some(number), 200 if act == "answer" else 400)
            case "fail":
                await site.end(self._some(number), JobState.FAILED, Reason.DEAD_LETTER)
            case "put back":
                await site.put_back(self._some(number), may_have_run=bool(number % 2))
            case "late answer":
                assert await site.answer(self.lost) == 0, "the end of a lost attempt counted"
                self.lost = []
            case "die":
                await site.lose(self.runners[0])
                self.lost, self.held = self.lost + self.held, []
                self.runners = [self.runners[1], await site.runner()]

    def _some(self, number: int) -> Sequence[Job]:
        some, self.held = self.held[:number], self.held[number:]
        return some

    async def _ask(self, act: str) -> None:
        intake, who = self.site.intake, self.site.who()
        try:
            await {"cancel": intake.cancel, "pause": intake.pause, "resume": intake.resume}[act](who, self.batch.id)
        except Conflict:
            assert act != "resume" or not (await self.site.find(self.batch.id)).state.is_pausable

    async def finish(self) -> Batch:
        """Let everything end: what is still held stays unanswered until its deadline has passed."""
        self.site.clock.advance(86_400.0 + 60.0)
        return await self.site.until_over(self.runners[1], self.batch.id, rounds=8)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acts=st.lists(st.tuples(st.sampled_from(ACTS), st.integers(1, 4)), min_size=4, max_size=24))
async def test_each_line_is_written_once(database: Database, tmp_path: Path, acts: list[tuple[str, int]]) -> None:
    """Whatever happens between two runners, the batch ends with each of its lines in one file, and holds nothing."""
    site = BatchSite(database, tmp_path, ManualClock(), tenant=TenantId(f"t{uuid4().hex[:12]}"))
    batch = await site.create(*(line(f"c{number}") for number in range(LINES)))
    life = Life(site, batch, [await site.runner(), await site.runner()])
    await site.step(life.runners[0])
    for act, number in acts:
        await life.do(act, number)
    done = await life.finish()
    output, errors = await site.results(done)
    assert len(output) + len(errors) == done.counts.total == LINES
    assert sorted(one["custom_id"] for one in output + errors) == [f"c{number}" for number in range(LINES)]
    assert done.counts.completed == len(output)
    assert all((one["response"] is None) != (one["error"] is None) for one in output + errors)
    assert await site.reserved() == 0
    assert await site.jobs.paused() == frozenset()
