"""Load any OpenAI-compatible endpoint with a scenario, and say whether the promises of ``slo/specs`` were kept.

make loadtest SCENARIO=steady TARGET=http://127.0.0.1:8000 KEY=psk_…
python -m loadtests steady --target http://127.0.0.1:8000 --key psk_…
"""

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from loadtests.conduct import Wishes, prepared
from loadtests.plan import scenario as scenarios
from loadtests.plan.scenario import ScenarioRefused
from loadtests.plan.traces import TraceRefused
from loadtests.target import TargetRefused
from loadtests.verdict import report
from loadtests.verdict.figures import shown
from loadtests.verdict.judging import Exit, Verdict
from loadtests.verdict.tenants import Seen
from slo.spec import SPECS, load

BUILD = Path("build/loadtests")
KEY_VARIABLE = "LOADTEST_KEY"
app = typer.Typer(add_completion=False, rich_markup_mode="rich")
console = Console(highlight=False)


def _listed(wished: bool) -> None:  # noqa: FBT001  typer's idiom
    if not wished:
        return
    table = Table("scenario", "what it does", "mix", "rate", "seconds", box=None)
    for name in scenarios.names():
        one = scenarios.load(name)
        rate = f"{one.of_capacity:g} x capacity" if one.of_capacity else f"{one.per_s:g}/s" if one.per_s else "its own"
        table.add_row(name, one.says, one.mix, rate, f"{one.duration_s:g}")
    console.print(table)
    raise typer.Exit


@app.command(epilog="Ends with 0: kept. 1: a promise was broken. 2: the run says nothing, or could not be done.")
def run(  # noqa: PLR0913  one for each option
    scenario: Annotated[str, typer.Argument(help="A scenario's name (see --list), or a YAML file of your own.")],
    *,
    target: Annotated[str, typer.Option(help="The endpoint's address, with or without /v1.")],
    key: Annotated[
        list[str] | None,
        typer.Option(help=f"KEY, or TENANT=KEY for one of the mix; repeatable. Better in {KEY_VARIABLE}, by spaces."),
    ] = None,
    model: Annotated[str, typer.Option(help="The model to ask.", show_default="the only one it has")] = "",
    mix: Annotated[str, typer.Option(help="Who asks: a mix or a YAML file.", show_default="the scenario's")] = "",
    rate: Annotated[float | None, typer.Option(min=0.001, help="Requests a second, all tenants together.")] = None,
    duration: Annotated[float | None, typer.Option(min=1, help="Seconds in which requests are sent.")] = None,
    capacity: Annotated[
        float | None, typer.Option(min=0.001, help="What the target can do, in requests a second; else measured.")
    ] = None,
    lengths: Annotated[float, typer.Option(min=0.001, help="Multiplies prompts and answers: 0.1 for a laptop.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same plan.")] = 1,
    timeout: Annotated[
        float | None, typer.Option(min=0.1, help="Seconds that a caller waits.", show_default="the tier's deadline")
    ] = None,
    trace: Annotated[Path | None, typer.Option(help="The trace that a replay replays.")] = None,
    body: Annotated[str, typer.Option(help="JSON fields for each body, as '{\"ignore_eos\": true}' for vLLM.")] = "{}",
    objectives: Annotated[Path, typer.Option(help="The folder of the promises.", show_default="slo/specs")] = SPECS,
    out: Annotated[Path | None, typer.Option(help="Where to leave report.html, verdict.json and the records.")] = None,
    _: Annotated[
        bool, typer.Option("--list", callback=_listed, is_eager=True, help="Show the scenarios and end.")
    ] = False,
) -> None:
    """Load an OpenAI-compatible endpoint, open loop, and judge it by the promises of slo/specs.

    Requests are planned before the run, from a seed, and sent at their times whatever the target does; latency counts
    from the planned time. Lengths, bursts and shared prefixes are those of public traces.
    """
    wishes = Wishes(
        scenario=scenario,
        target=target,
        keys=tuple(key or os.environ.get(KEY_VARIABLE, "").split()),
        model=model,
        mix=mix,
        per_s=rate,
        duration_s=duration,
        capacity_per_s=capacity,
        seed=seed,
        lengths=lengths,
        timeout_s=timeout,
        trace=trace,
        extra=_fields(body),
    )
    folder = out or BUILD / Path(scenario).stem
    try:
        told = prepared(wishes, load(objectives), console.print).conduct(folder)
    except (ScenarioRefused, TargetRefused, TraceRefused) as refused:
        console.print(f"loadtest: {refused}", style="red", markup=False)
        raise typer.Exit(Exit.SAYS_NOTHING) from refused
    page = report.write(told, folder)
    _show(told.verdict, told.tenants, page)
    raise typer.Exit(told.verdict.exit)


def _fields(text: str) -> dict[str, object]:
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise typer.BadParameter("--body must be a JSON object")
    return fields


def _show(verdict: Verdict, tenants: list[Seen], page: Path) -> None:
    promises = Table("who", "promise", "wanted", "was", "events", "finding", box=None)
    for one in verdict.judged:
        bound = f" within {shown(one.objective.within_s)}" if one.objective.within_s else ""
        promises.add_row(
            one.tenant or f"tier {one.tier}",
            f"{one.objective.indicator}{bound}",
            report.percent(one.objective.good_ratio),
            report.percent(one.good_ratio),
            str(one.events),
            one.finding if one.counts else f"{one.finding}, not judged",
        )
    console.print(promises)
    sights = Table(
        "tenant", "from s", "asked", "whole", "refused", "left", "faults", "TTFT p50", "p99", "gap p95", box=None
    )
    for one in tenants:
        counts = (one.asked, one.whole, one.refused, one.left, one.faults)
        times = (one.ttft_s[0], one.ttft_s[2], one.itl_s[1])
        sights.add_row(one.tenant, f"{one.from_s:.0f}", *map(str, counts), *map(shown, times))
    console.print(sights)
    for reason in verdict.reasons:
        console.print(reason, style="yellow", markup=False)
    console.print(f"{verdict.says}; exit code {int(verdict.exit)}. {page}")


if __name__ == "__main__":
    app(prog_name="python -m loadtests")
