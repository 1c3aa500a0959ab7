"""The monthly estimate: from the graph, with sources, and a verdict against the budget."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date

import pytest

from infra.catalogue.instances import instances, sources
from infra.config.kinds import StackKind
from infra.config.model import Fleet
from infra.config.pools import Pool
from infra.estimate.lines import HOURS, lines, prices
from infra.estimate.report import Estimate, budget_of, ending, estimate, render
from infra.graph.captured import Capture
from tests.infra.edits import put
from tests.infra.model.machines import ec2_types

SIZES: tuple[Callable[[Pool], int], ...] = (
    lambda pool: pool.max_size if pool.reservation else pool.min_size,
    lambda pool: pool.likely,
    lambda pool: pool.max_size,
)


def east(fleet: Fleet, by_label: dict[str, Capture]) -> Estimate:
    item = by_label["region-us-east-1"]
    return estimate(fleet.environment, item.kind, item.graph, fleet.region("us-east-1"))


def test_pools_cost_what_they_keep(fleet: Fleet, by_label: dict[str, Capture]) -> None:
    """A floor costs its machines, disks and waiting disks; paid capacity costs in full; burst costs nothing idle."""
    found = list(lines(by_label["region-us-east-1"].graph, fleet.regions[0]))
    base = [line for line in found if line.what.startswith("pool l40s-base")]
    block = [line for line in found if line.what.startswith("pool h100-block")]
    disk = 300 * 0.08 + 3000 * 0.005 + 875 * 0.04  # above 3,000 IOPS and 125 MB/s gp3 costs more than its size
    each = instances()["g6e.2xlarge"].usd_per_h * HOURS + disk
    assert len(base) == 3  # a group per zone
    assert sum(line.usd for line in base) == pytest.approx(3 * each + 6 * disk)  # of three prepared a zone, one runs
    assert sum(line.most_usd for line in base) == pytest.approx(12 * each + 3 * disk)
    assert sum(line.usd for line in block) == pytest.approx(2 * (39.33 * HOURS + 1000 * 0.08 + 50))
    burst = {line.what.split(":")[0]: line for line in lines(by_label["platform-us-east-1"].graph, fleet.regions[0])}
    assert burst["pool l40s-spot"].usd == 0
    assert burst["pool l40s-spot"].most_usd > burst["pool l40s-spot"].likely_usd > 0
    assert all(line.usd <= line.likely_usd <= line.most_usd for line in found if "warm" not in line.what)


def test_logs_cost_what_comes_in_and_what_is_kept(fleet: Fleet, by_label: dict[str, Capture]) -> None:
    """A group costs its ingestion and its retention, and grows with the machines; each group has a row."""
    graph = by_label["region-us-east-1"].graph
    flow = next(line for line in lines(graph, fleet.regions[0]) if line.what.startswith("log flow"))
    machines = [sum(size(pool) for pool in fleet.regions[0].pools) for size in SIZES]
    each = 0.50 + 0.03 * 0.15 * 400 * 24 / HOURS
    assert [flow.usd, flow.likely_usd, flow.most_usd] == pytest.approx([each * count for count in machines])
    longer = put("LogGroup", "flow", "retentionInDays", 800)(graph)
    dearer = next(line for line in lines(longer, fleet.regions[0]) if line.what.startswith("log flow"))
    assert dearer.usd > flow.usd
    told = [line.what for item in by_label.values() for line in lines(item.graph, None) if line.what.startswith("log ")]
    assert len(told) == sum(len([*item.graph.of("aws:cloudwatch/logGroup:LogGroup")]) for item in by_label.values())


def test_paid_capacity_has_an_end(fleet: Fleet) -> None:
    """The days that are left of a block are told, and below zero it has ended."""
    block = "us-east-1 h100-block (cr-0b1c2d3e4f5061728)"
    assert ending(fleet, date(2026, 12, 30))[block] == 1
    assert ending(fleet, date(2027, 1, 1))[block] == -1


def test_every_stack_is_within_its_budget(fleet: Fleet, captures: tuple[Capture, ...]) -> None:
    """The shipped config costs less than the budgets it states."""
    for item in captures:
        region = fleet.region(item.region) if item.region else None
        assert estimate(fleet.environment, item.kind, item.graph, region).within


def test_an_overspent_stack_is_told(fleet: Fleet, by_label: dict[str, Capture]) -> None:
    """A budget below the estimate turns the verdict, in the report and in the value."""
    dear = replace(east(fleet, by_label), budget_usd=1)
    assert not dear.within
    assert "ABOVE budget 1" in render([dear])


def test_the_report_names_its_sources(fleet: Fleet, by_label: dict[str, Capture]) -> None:
    """The page says where the prices come from and when they were read."""
    page = render([east(fleet, by_label)])
    assert sources()["price"] in page
    assert prices()["read"] in page


def test_every_kind_has_a_budget(fleet: Fleet) -> None:
    """Each stack kind has a ceiling above zero."""
    assert all(budget_of(fleet.environment.budgets, kind) > 0 for kind in StackKind)


def test_every_price_has_a_source() -> None:
    """No row of the price table stands without a source."""
    table = prices()
    rows = [
        *table["rows"].values(),
        *table["databases"].values(),
        *table["volumes"].values(),
        *table["blocks"].values(),
        *table["logs"].values(),
    ]
    assert all(row["source"] for row in table["groups"].values())
    assert all(row["source"] and row["usd"] >= 0 for row in rows)


def test_every_catalogued_type_exists() -> None:
    """Each instance type of the catalogue is one that the EC2 API knows."""
    assert sorted(set(instances()) - ec2_types()) == []


def test_gpu_facts_agree_with_themselves() -> None:
    """A type has GPUs exactly where its family names one, and a price above zero."""
    for item in instances().values():
        assert (item.gpus > 0) == (item.gpu != "none")
        assert item.usd_per_h > 0
