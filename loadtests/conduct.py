"""A load test from wishes to verdict: plan, drive, judge, report. The order of things, and nothing else."""

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loadtests import capacity
from loadtests.drive.process import drive
from loadtests.drive.run import Keys, Run, RunFolder
from loadtests.plan import scenario as scenarios
from loadtests.plan.planning import Order, Session, closed, planned
from loadtests.plan.scenario import Mix, Scenario
from loadtests.target import Model, TargetRefused, model_of
from loadtests.verdict import report
from loadtests.verdict.judging import judge
from penstock.domain.models.model import Tier
from penstock.domain.serving.slo import SloTier

KEY_OF_TENANT = re.compile(r"(?P<tenant>[\w.-]+)=(?P<key>.*[^=].*)")


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """The options of a run; None leaves one to the scenario."""

    scenario: str
    target: str
    keys: tuple[str, ...] = ()
    """Each a key, or TENANT=KEY."""
    model: str = ""
    mix: str = ""
    per_s: float | None = None
    duration_s: float | None = None
    capacity_per_s: float | None = None
    seed: int = 1
    lengths: float = 1.0
    timeout_s: float | None = None
    trace: Path | None = None
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LoadTest:
    """One load test, ready to be driven."""

    wishes: Wishes
    scenario: Scenario
    mix: Mix
    keys: Keys
    model: Model
    promises: Mapping[Tier, SloTier]
    say: Callable[[str], None]

    def conduct(self, path: Path) -> report.Told:
        """Do it, and leave all files in a folder."""
        needs_capacity = self.scenario.of_capacity and not self.wishes.per_s
        measured = self._capacity(path / "capacity") if needs_capacity else None
        order = self._order(self.wishes.per_s or self._per_s(measured))
        plan = planned(order)
        folder = self._drive(path, order, plan, measured)
        records, health = folder.records(), folder.health()
        verdict = judge(records, health, self.scenario, self.mix, self.promises)
        return report.Told(
            run=folder.run(),
            scenario=self.scenario,
            mix=self.mix,
            records=records,
            health=health,
            verdict=verdict,
        )

    def _per_s(self, capacity_per_s: float | None) -> float | None:
        times = self.scenario.of_capacity
        return times * capacity_per_s if times and capacity_per_s else self.scenario.per_s

    def _capacity(self, path: Path) -> float:
        """Return the given capacity, or measure it."""
        if self.wishes.capacity_per_s:
            return self.wishes.capacity_per_s
        self.say(
            f"measuring the capacity: {capacity.CALLERS} callers that wait for each other, {capacity.SECONDS:.0f} s"
        )
        order = self._order(None, capacity.SECONDS)
        folder = self._drive(path, order, closed(order, capacity.CALLERS, capacity.TURNS), None, is_patient=True)
        found = capacity.of(folder.records(), capacity.SECONDS)
        if found is None:
            raise TargetRefused(
                f"fewer than {capacity.FEWEST} answers in {capacity.SECONDS:.0f} s: name the capacity with --capacity,"
                " or shorten prompts and answers with --lengths"
            )
        self.say(f"capacity: {found:.2f} requests/s")
        return found

    def _order(self, per_s: float | None, duration_s: float | None = None) -> Order:
        return Order(
            scenario=self.scenario,
            mix=self.mix,
            per_s=per_s,
            duration_s=duration_s or self.wishes.duration_s or self.scenario.duration_s,
            seed=self.wishes.seed,
            sizes=self.model.sizes(self.wishes.lengths),
            trace=self.wishes.trace if self.scenario.trace else None,
        )

    def _drive(
        self, path: Path, order: Order, plan: list[Session], capacity_per_s: float | None, *, is_patient: bool = False
    ) -> RunFolder:
        folder = RunFolder(path)
        tiers = {tenant.name: tenant.tier for tenant in self.mix.tenants}
        deadline_s = max(self.promises[tier].deadline_s for tier in tiers.values())
        run = Run(
            scenario=self.wishes.scenario,
            target=self.wishes.target,
            model=self.model.name,
            seed=order.seed,
            per_s=order.per_s,
            duration_s=order.duration_s,
            timeout_s=deadline_s if is_patient else self.wishes.timeout_s or deadline_s,
            salt=secrets.token_hex(4),
            tiers=tiers,
            extra=dict(self.wishes.extra),
            capacity_per_s=capacity_per_s,
        )
        folder.begin(run, plan)
        rate = f", {order.per_s:.2f}/s" if order.per_s else ""
        self.say(f"{len(plan)} sessions in {order.duration_s:.0f} s{rate}, against {run.model} at {run.target}")
        drive(folder, self.keys, lambda done: self.say(f"  {done} requests have ended"))
        return folder


def prepared(wishes: Wishes, promises: Mapping[Tier, SloTier], say: Callable[[str], None]) -> LoadTest:
    """Return the test; raise ``ScenarioRefused`` or ``TargetRefused`` if it can't run."""
    scenario = scenarios.load(wishes.scenario)
    if scenario.trace and wishes.trace is None:
        raise scenarios.ScenarioRefused(f"{wishes.scenario} replays {scenario.trace}: name the file with --trace")
    mix = scenarios.load_mix(wishes.mix or scenario.mix)
    keys = keys_of(wishes.keys)
    return LoadTest(
        wishes=wishes,
        scenario=scenario,
        mix=mix,
        keys=keys,
        model=model_of(wishes.target, keys.get(mix.tenants[0].name) or keys.get("", ""), wishes.model),
        promises=promises,
        say=say,
    )


def keys_of(words: Sequence[str]) -> dict[str, str]:
    """Return keys by tenant; a key alone, which may end in padding, is for every tenant without one."""
    pairs = ((KEY_OF_TENANT.fullmatch(word), word) for word in words)
    return {found["tenant"] if found else "": found["key"] if found else word for found, word in pairs}
