"""A diagnosis: times, promises, the bottleneck with remedies, and the cases that were ruled out."""

from collections.abc import Iterator

from penstock.diagnosis.evidence import AnyOf, Check, Evidence, Judgement, Remedy, Unit
from penstock.diagnosis.recording import Recording
from penstock.diagnosis.snapshot import EngineFigures, KeptPromise, Snapshot, StageTime
from penstock.diagnosis.verdict import Diagnosis, Finding, Word
from penstock.explain.words import seconds
from penstock.views.elements import Line, Style, line

BAR = 24
MOST_CHARS = 78
"""Characters of a line about ruled-out causes: on 80 columns the verdict, which comes last, stays visible; `--json` has
all.
"""
_HEADS = {
    Word.HEALTHY: line(("No promise is broken", Style.GOOD), " of those that could be measured."),
    Word.UNEXPLAINED: line(("A promise is broken, and no known cause holds.", Style.BAD)),
    Word.UNKNOWN: line(("Nothing can be said:", Style.UNSURE), " too little was measured."),
}
_MARKS = {True: ("✓", Style.GOOD), False: ("✗", Style.BAD), None: ("?", Style.UNSURE)}


def lines(verdict: Diagnosis, snapshot: Snapshot, recording: Recording) -> Iterator[Line]:
    asked = "unknown" if snapshot.requests is None else f"{snapshot.requests:.0f}"
    yield line(("Diagnosis", Style.STRONG), f" of {recording.says}: {asked} requests")
    yield line()
    yield from _stages(snapshot.stages)
    yield from _engines(snapshot.engines)
    yield line(("Promises", Style.STRONG))
    seen = [one for one in snapshot.objectives if one.events]
    yield from (line(f"  {_promise(one)}  →  {_was_kept(one)}") for one in seen)
    if not seen:
        yield line(("  nothing was measured that they promise", Style.MUTED))
    yield line()
    yield from _others(verdict)
    yield from _found(verdict)


def _stages(stages: tuple[StageTime, ...]) -> Iterator[Line]:
    yield line(("Where the time went", Style.STRONG), "  (mean of a request, 95th percentile, share of all time)")
    for one in stages:
        mean, p95 = _amount(one.mean_s, Unit.SECONDS), _amount(one.p95_s, Unit.SECONDS)
        bar = "█" * round(one.share * BAR)
        yield line(f"  {one.stage:<11}{mean:>9} {p95:>9} {one.share:>6.1%}  ", (bar, Style.COMMAND))
    if not stages:
        yield line(("  no request was measured", Style.MUTED))
    yield line()


def _engines(engines: tuple[EngineFigures, ...]) -> Iterator[Line]:
    if engines:
        yield line(("Engines", Style.STRONG), "  (on average)")
    for one in engines:
        yield line(
            f"  {one.version}: {_few(one.running)} of {_few(one.slots)} slots run, {_few(one.waiting)} wait"
            f" in the queue, KV cache {_percent(one.kv_used_ratio)}, GPUs {_percent(one.device_busy_ratio)}"
        )
    if engines:
        yield line()


def _found(verdict: Diagnosis) -> Iterator[Line]:
    if verdict.word is not Word.BOTTLENECK:
        yield _HEADS[verdict.word]
        yield line()
    for number, finding in enumerate(verdict.findings):
        is_first = number == 0 and verdict.word is Word.BOTTLENECK
        later = ("Also found", Style.STRONG) if finding.ended_s == 0 else ("Was found", Style.MUTED)
        yield from _finding(finding, ("Bottleneck", Style.BAD) if is_first else later)


def _finding(finding: Finding, title: tuple[str, Style]) -> Iterator[Line]:
    judgement = finding.judgement
    subject = f" ({judgement.subject})" if judgement.subject else ""
    yield line(title, ": ", (str(judgement.case), Style.STRONG), (subject, Style.MUTED), f", {_when(finding)}")
    yield line(f"  {judgement.says}")
    if finding.effect_of:
        yield line(f"  It is an effect of {finding.effect_of}: mend that first.")
    for kept in finding.at_stake:
        yield line(f"  at stake: {_promise(kept)}, was {_was_kept(kept)}")
    if not finding.at_stake:
        yield line("  No promise is known to be broken by it.")
    for evidence in judgement.evidence:
        yield from _evidence(evidence)
    for number, remedy in enumerate(judgement.remedies if not finding.effect_of else (), 1):
        yield line(f"  {number}. {remedy.says} ", (f"Costs {remedy.cost}.", Style.MUTED))
        if how := _how(remedy):
            yield line("     ", (how, Style.COMMAND))
    yield line()


def _when(finding: Finding) -> str:
    if finding.ended_s is None:
        return "over the whole window, in no single minute of it"
    return f"ended about {seconds(finding.ended_s)} ago" if finding.ended_s else "now"


def _evidence(evidence: Evidence) -> Iterator[Line]:
    if isinstance(evidence, AnyOf):
        yield line("  ", _MARKS[evidence.holds], " one of:")
        yield from (_check(check, "    ") for check in evidence.checks)
        return
    yield _check(evidence, "  ")


def _check(check: Check, indent: str) -> Line:
    return line(indent, _MARKS[check.holds], f" {check.says}: {_compared(check)}  ", (check.metric, Style.MUTED))


def _others(verdict: Diagnosis) -> Iterator[Line]:
    if verdict.ruled_out:
        yield line(("Ruled out", Style.STRONG))
    for judgement in verdict.ruled_out:
        yield line(f"  {judgement.case}: {_why_not(judgement)}"[:MOST_CHARS])
    if verdict.undecided:
        yield line(("Undecided", Style.STRONG), "  (what is unknown rules nothing out)")
    for judgement in verdict.undecided:
        metrics = ", ".join(dict.fromkeys(check.metric for check in judgement.unknown))
        yield line(f"  {judgement.case}: unknown are {metrics}"[:MOST_CHARS])
    yield line()


def _why_not(judgement: Judgement) -> str:
    return "; ".join(f"{check.says}: {_compared(check)}" for check in judgement.failing)


def _amount(value: float | None, unit: Unit) -> str:
    if value is None:
        return "unknown"
    if unit is Unit.RATIO:
        return f"{value:.0%}"
    if unit is Unit.SECONDS:
        return seconds(value)
    return f"{value:.3g}"


def _compared(check: Check) -> str:
    return f"{_amount(check.value, check.unit)} (needs {check.sense} {_amount(check.limit, check.unit)})"


def _promise(kept: KeptPromise) -> str:
    within = f" within {seconds(kept.within_s)}" if kept.within_s else ""
    return f"{kept.tier} {kept.indicator}: {kept.promised_ratio * 100:.4g} %{within}"


def _was_kept(kept: KeptPromise) -> str:
    if kept.good_ratio is None:
        return f"unknown ({kept.events:.0f} events)"
    return f"{kept.good_ratio * 100:.4g} %{' MISSED' if kept.is_missed else ''}"


def _how(remedy: Remedy) -> str:
    if remedy.command:
        return remedy.command
    return f"set {remedy.setting}" if remedy.setting else ""


def _few(value: float | None) -> str:
    return "?" if value is None else f"{value:.3g}"


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.0%}"
