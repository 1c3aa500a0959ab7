import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from loadtests.drive.records import End, Health, Record
from loadtests.drive.run import Run
from loadtests.plan.scenario import Mix, Scenario, Tenant
from loadtests.verdict import report
from loadtests.verdict.figures import quantile, shown
from loadtests.verdict.judging import judge
from loadtests.verdict.svg import Axis, Plot, axis
from loadtests.verdict.tenants import seen, windows
from penstock.domain.models.model import Tier
from slo.spec import load

MIX = Mix(says="Two.", tenants=(Tenant(name="reader"), Tenant(name="<flood>", from_part=0.5, judged=False)))
SCENARIO = Scenario(says="A test.", mix="", per_s=1, duration_s=60, lengths="azure-conversation")


def records(answered: int = 60) -> list[Record]:
    return [
        Record(
            tenant=("reader", "<flood>")[number % 2 if number >= 30 else 0],
            planned_at=float(number),
            began_at=number + 0.001,
            first_at=number + 0.2 if number < answered else None,
            ended_at=number + 1.0,
            gaps_s=[0.02, 0.04] if number < answered else [],
            end=End.WHOLE if number < answered else End.REFUSED,
            status=200 if number < answered else 503,
        )
        for number in range(60)
    ]


def told(found: list[Record]) -> report.Told:
    run = Run(
        scenario="test",
        target="http://here",
        model="toy",
        seed=1,
        per_s=1.0,
        duration_s=60,
        timeout_s=60,
        salt="x",
        tiers={"reader": Tier.CHAT, "<flood>": Tier.CHAT},
    )
    health = Health(sessions=len(found), held=len(found), pulses=[(float(at), 0.001) for at in range(60)])
    verdict = judge(found, health, SCENARIO, MIX, load())
    return report.Told(run=run, scenario=SCENARIO, mix=MIX, records=found, health=health, verdict=verdict)


def test_a_report_is_one_file_that_fetches_nothing(tmp_path: Path) -> None:
    """The page has a plot for each question, and no script, link, image or font from anywhere."""
    page = report.write(told(records()), tmp_path).read_text()
    assert page.count("<svg ") == 5
    assert re.findall(r"<script|<link|<img|src=|href=|@import|url\(", page) == []


def test_every_plot_is_well_formed_and_inside_its_frame(tmp_path: Path) -> None:
    """Each plot is valid XML and everything that is drawn lies within its box."""
    page = report.write(told(records()), tmp_path).read_text()
    for drawing in re.findall(r"<svg .*?</svg>", page, re.DOTALL):
        root = ET.fromstring(drawing)  # noqa: S314  our own
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        for circle in root.iter("circle"):
            assert 0 <= float(circle.attrib["cx"]) <= width
            assert 0 <= float(circle.attrib["cy"]) <= height


def test_a_tenants_name_is_text_and_never_markup(tmp_path: Path) -> None:
    """What a mix file calls a tenant can't break the page."""
    page = report.write(told(records()), tmp_path).read_text()
    assert "<flood>" not in page
    assert "&lt;flood&gt;" in page


@pytest.mark.parametrize("answered", [0, 60])
def test_page_and_json_say_the_same(tmp_path: Path, answered: int) -> None:
    """Verdict, exit code and findings stand in both, with answers and where there was none."""
    page = report.write(told(records(answered)), tmp_path).read_text()
    said = json.loads((tmp_path / "verdict.json").read_text())
    assert f"Exit code {said['exit']}" in page
    assert said["says"].capitalize() in page
    assert {one["finding"] for one in said["objectives"]} <= {"kept", "broken", "unknown"}


def test_what_is_unknown_is_shown_as_unknown(tmp_path: Path) -> None:
    """Where no token came there is no latency: null in JSON, a question mark on the page, never 0."""
    page = report.write(told(records(0)), tmp_path).read_text()
    said = json.loads((tmp_path / "verdict.json").read_text())
    assert said["tenants"][0]["ttft_s"] == [None, None, None]
    assert said["tenants"][0]["output_tokens"] is None
    assert "<td>?</td>" in page
    assert "<td>0 ms</td>" not in page


def test_windows_begin_where_a_tenant_joins() -> None:
    """A tenant that joins half-way splits everybody's figures into before and after."""
    assert windows(MIX, 60) == [(0.0, 30.0), (30.0, 60.0)]
    rows = seen(records(), MIX, 60)
    assert [(one.tenant, one.from_s, one.asked) for one in rows] == [
        ("reader", 0.0, 30),
        ("reader", 30.0, 15),
        ("<flood>", 30.0, 15),
    ]


def test_figures_of_nothing_are_unknown() -> None:
    """An empty sample has no quantile, and an unknown duration is shown as such."""
    assert quantile([], 0.5) is None
    assert [shown(value) for value in (None, 0.0123, 2.5)] == ["?", "12 ms", "2.50 s"]


def test_an_almost_whole_share_is_not_rounded_up() -> None:
    """A share below one is never shown as 100 %."""
    assert [report.percent(ratio) for ratio in (None, 0.5, 0.99999, 1.0)] == ["?", "50.00 %", "99.99 %", "100 %"]


def test_values_lie_where_their_axis_says() -> None:
    """Half of a linear axis is the middle, the geometric mean is that of a logarithmic one, and ticks are round."""
    assert Axis(name="", low=0, high=10).part(5) == 0.5
    assert Axis(name="", low=0.01, high=1, log=True).part(0.1) == pytest.approx(0.5)
    assert list(Axis(name="", low=0, high=10).ticks()) == [0, 2, 4, 6, 8, 10]
    assert list(Axis(name="", low=0.1, high=1, log=True).ticks()) == [0.1, pytest.approx(0.3), 1.0]
    assert list(axis("", []).ticks())


def test_a_plot_is_read_out_by_its_words() -> None:
    """A plot says in words what it shows, escaped."""
    axes = Axis(name="x", low=0, high=1), Axis(name="y", low=0, high=1)
    assert 'aria-label="a &lt; b"' in Plot("a < b", *axes).text()
