"""A verdict on the screen: where the time went, what was promised, the bottleneck, what helps, what it is not."""

from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape

from penstock.apps.diagnosing import words
from penstock.diagnosis.evidence import AnyOf, Check, Evidence, Unit
from penstock.diagnosis.recording import Recording
from penstock.diagnosis.snapshot import EngineFigures, Snapshot, StageTime
from penstock.diagnosis.verdict import Finding, Verdict, Word

BAR = 24
_HEADS = {
    Word.HEALTHY: "[bold green]No promise is broken[/] of those that could be measured.",
    Word.UNEXPLAINED: "[bold red]A promise is broken, and no known cause holds.[/]",
    Word.UNKNOWN: "[bold yellow]Nothing can be said:[/] too little was measured.",
}
_MARKS = {True: "[green]✓[/]", False: "[red]✗[/]", None: "[yellow]?[/]"}


def show(out: Console, verdict: Verdict, snapshot: Snapshot, recording: Recording) -> None:
    """Print all of it."""
    for line in lines(verdict, snapshot, recording):
        out.print(line, highlight=False, soft_wrap=True)


def lines(verdict: Verdict, snapshot: Snapshot, recording: Recording) -> Iterator[str]:
    """Return the screen, line by line."""
    asked = "unknown" if snapshot.requests is None else f"{snapshot.requests:.0f}"
    yield f"[bold]Diagnosis[/] of {escape(recording.says)}: {asked} requests"
    yield ""
    yield from _stages(snapshot.stages)
    yield from _engines(snapshot.engines)
    yield "[bold]Promises[/]"
    seen = [one for one in snapshot.objectives if one.events]
    yield from (f"  {words.promise(one)}  →  {words.was_kept(one)}" for one in seen)
    if not seen:
        yield "  [dim]nothing was measured that they speak of[/]"
    yield ""
    yield from _found(verdict)
    yield from _others(verdict)


def _stages(stages: tuple[StageTime, ...]) -> Iterator[str]:
    yield "[bold]Where the time went[/]  (mean of a request, 95th percentile, share of all time)"
    for one in stages:
        bar = "█" * round(one.share * BAR)
        yield (
            f"  {one.stage:<11}{words.amount(one.mean_s, Unit.SECONDS):>9} {words.amount(one.p95_s, Unit.SECONDS):>9}"
            f" {one.share:>6.1%}  [cyan]{bar}[/]"
        )
    if not stages:
        yield "  [dim]no request was measured[/]"
    yield ""


def _engines(engines: tuple[EngineFigures, ...]) -> Iterator[str]:
    if engines:
        yield "[bold]Engines[/]  (on average)"
    for one in engines:
        yield (
            f"  {escape(one.version)}: {_few(one.running)} of {_few(one.slots)} slots run, {_few(one.waiting)} wait"
            f" at the door, KV cache {_percent(one.kv_used_ratio)}, GPUs {_percent(one.device_busy_ratio)}"
        )
    if engines:
        yield ""


def _found(verdict: Verdict) -> Iterator[str]:
    if verdict.word is not Word.BOTTLENECK:
        yield _HEADS[verdict.word]
        yield ""
    for number, finding in enumerate(verdict.findings):
        is_first = number == 0 and verdict.word is Word.BOTTLENECK
        yield from _finding(finding, "[bold red]Bottleneck[/]" if is_first else "[bold]Also found[/]")


def _finding(finding: Finding, title: str) -> Iterator[str]:
    judgement = finding.judgement
    subject = f" [dim]({escape(judgement.subject)})[/]" if judgement.subject else ""
    yield f"{title}: [bold]{judgement.case}[/]{subject}"
    yield f"  {judgement.says}"
    if finding.effect_of:
        yield f"  It is an effect of {finding.effect_of}: mend that first."
    for kept in finding.at_stake:
        yield f"  at stake: {words.promise(kept)}, was {words.was_kept(kept)}"
    if not finding.at_stake:
        yield "  No promise is known to be broken by it."
    for evidence in judgement.evidence:
        yield from _evidence(evidence)
    for number, remedy in enumerate(judgement.remedies if not finding.effect_of else (), 1):
        yield f"  {number}. {remedy.says} [dim]Costs {remedy.cost}.[/]"
        if how := words.how(remedy):
            yield f"     [cyan]{escape(how)}[/]"
    yield ""


def _evidence(evidence: Evidence) -> Iterator[str]:
    if isinstance(evidence, AnyOf):
        yield f"  {_MARKS[evidence.holds]} one of:"
        yield from (f"    {line}" for check in evidence.checks for line in _check(check))
        return
    yield from (f"  {line}" for line in _check(evidence))


def _check(check: Check) -> Iterator[str]:
    yield f"{_MARKS[check.holds]} {check.says}: {words.compared(check)}  [dim]{escape(check.metric)}[/]"


def _others(verdict: Verdict) -> Iterator[str]:
    if verdict.ruled_out:
        yield "[bold]Ruled out[/]"
    for judgement in verdict.ruled_out:
        yield f"  {judgement.case}: {escape(words.why_not(judgement))}"
    if verdict.undecided:
        yield "[bold]Nobody can tell[/]  (what is unknown rules nothing out)"
    for judgement in verdict.undecided:
        yield f"  {judgement.case}: unknown are {escape(words.what_lacks(judgement))}"


def _few(value: float | None) -> str:
    return "?" if value is None else f"{value:.3g}"


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.0%}"
