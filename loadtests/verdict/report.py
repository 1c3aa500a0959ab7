"""A run's report: one HTML file that needs no network, and the same figures as JSON."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import jinja2

from loadtests.drive.records import Health, Record
from loadtests.drive.run import Run
from loadtests.plan.scenario import Mix, Scenario
from loadtests.verdict.figures import shown
from loadtests.verdict.judging import Judged, Verdict
from loadtests.verdict.plots import figures
from loadtests.verdict.tenants import Seen, seen

SLOWEST = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Told:
    run: Run
    scenario: Scenario
    mix: Mix
    records: Sequence[Record]
    health: Health | None
    verdict: Verdict

    @property
    def tenants(self) -> list[Seen]:
        """What each tenant saw."""
        return seen(self.records, self.mix, self.run.duration_s)

    @property
    def bounds(self) -> Mapping[str, float]:
        """The tightest bound of each timed indicator."""
        timed = [one.objective for one in self.verdict.judged if one.objective.indicator.is_timed]
        ordered = sorted(timed, key=lambda objective: -objective.within_s)
        return {objective.indicator.value: objective.within_s for objective in ordered}

    @property
    def slowest(self) -> list[Record]:
        """The requests that waited longest for a first token."""
        timed = [record for record in self.records if record.ttft_s is not None]
        return sorted(timed, key=lambda record: -(record.ttft_s or 0.0))[:SLOWEST]


def write(told: Told, folder: Path) -> Path:
    """Write ``report.html`` and ``verdict.json``; return the former."""
    (folder / "verdict.json").write_text(json.dumps(as_json(told), indent=2))
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined
    )
    drawn = list(figures(told.records, told.health, told.run.duration_s, told.bounds))
    page = environment.get_template("report.html.j2").render(told=told, figures=drawn, shown=shown, percent=percent)
    report = folder / "report.html"
    report.write_text(page, encoding="utf-8")
    return report


def as_json(told: Told) -> dict[str, object]:
    return {
        "says": told.verdict.says,
        "exit": int(told.verdict.exit),
        "reasons": told.verdict.reasons,
        "scenario": told.run.scenario,
        "target": told.run.target,
        "model": told.run.model,
        "seed": told.run.seed,
        "per_s": told.run.per_s,
        "capacity_per_s": told.run.capacity_per_s,
        "duration_s": told.run.duration_s,
        "generator": dataclasses.asdict(told.verdict.generator),
        "objectives": [_objective(one) for one in told.verdict.judged],
        "tenants": [dataclasses.asdict(one) for one in told.tenants],
    }


def _objective(one: Judged) -> dict[str, object]:
    return {
        "tier": one.tier,
        "tenant": one.tenant,
        "counts": one.counts,
        "indicator": one.objective.indicator,
        "within_s": one.objective.within_s or None,
        "wanted": one.objective.good_ratio,
        "good_ratio": one.good_ratio,
        "events": one.events,
        "finding": one.finding,
    }


def percent(ratio: float | None) -> str:
    """Return a share as people read it; never rounded up to a whole."""
    if ratio is None:
        return "?"
    return "100 %" if ratio == 1 else f"{min(100 * ratio, 99.99):.2f} %"
