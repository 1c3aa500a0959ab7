"""A verdict as plain data, for `--json`: the content of the screen with raw numbers."""

from collections.abc import Sequence
from dataclasses import asdict

from penstock.diagnosis.evidence import AnyOf, Check, Evidence, Judgement, checks_of
from penstock.diagnosis.recording import Recording
from penstock.diagnosis.snapshot import KeptPromise, Snapshot
from penstock.diagnosis.verdict import Diagnosis, Finding

Plain = dict[str, object]


def report(verdict: Diagnosis, snapshot: Snapshot, recording: Recording) -> Plain:
    return {
        "verdict": verdict.word,
        "bottleneck": verdict.bottleneck,
        "of": recording.says,
        "seconds": recording.seconds,
        "requests": snapshot.requests,
        "stages": [asdict(one) for one in snapshot.stages],
        "engines": [asdict(one) for one in snapshot.engines],
        "promises": [_promise(one) for one in snapshot.objectives],
        "findings": [_finding(one) for one in verdict.findings],
        "ruled_out": [_ruled_out(one) for one in verdict.ruled_out],
        "undecided": [{"case": one.case, "unknown": _checks(one.unknown)} for one in verdict.undecided],
    }


def _finding(finding: Finding) -> Plain:
    judgement = finding.judgement
    return {
        "case": judgement.case,
        "says": judgement.says,
        "subject": judgement.subject,
        "effect_of": finding.effect_of,
        "ended_s": finding.ended_s,
        "strength": round(judgement.strength, 3),
        "at_stake": [_promise(one) for one in finding.at_stake],
        "evidence": [_evidence(one) for one in judgement.evidence],
        "remedies": [asdict(one) for one in judgement.remedies],
    }


def _ruled_out(judgement: Judgement) -> Plain:
    return {"case": judgement.case, "because": _checks(judgement.failing)}


def _evidence(evidence: Evidence) -> Plain:
    if isinstance(evidence, AnyOf):
        return {"any_of": _checks(checks_of(evidence))}
    return _check(evidence)


def _checks(checks: Sequence[Check]) -> list[Plain]:
    return [_check(check) for check in checks]


def _check(check: Check) -> Plain:
    return {
        "says": check.says,
        "metric": check.metric,
        "value": check.value,
        "sense": check.sense,
        "limit": check.limit,
        "holds": check.holds,
    }


def _promise(kept: KeptPromise) -> Plain:
    return {**asdict(kept), "missed": kept.is_missed}
