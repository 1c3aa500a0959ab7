"""All cases judged together: the bottleneck, other findings, and the cases that are ruled out or undecided.

Findings are ordered: causes before their effects, broken objectives before met ones, then by the weakest evidence.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf

from penstock.diagnosis.cases import CASES
from penstock.diagnosis.evidence import Case, Judgement, State
from penstock.diagnosis.snapshot import KeptPromise, Snapshot


class Word(StrEnum):
    HEALTHY = "healthy"
    """Every measured objective is met."""
    BOTTLENECK = "bottleneck"
    UNEXPLAINED = "unexplained"
    """An objective is missed, and no case holds."""
    UNKNOWN = "unknown"
    """Too little was measured for a verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    judgement: Judgement
    at_stake: tuple[KeptPromise, ...]
    effect_of: Case | None
    ended_s: float | None = 0.0
    """Seconds since the finding last held; 0 if it holds at the window's end, None if it holds in no single minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """A window's findings; the first one is the bottleneck if ``word`` says that there is one."""

    word: Word
    findings: tuple[Finding, ...]
    ruled_out: tuple[Judgement, ...]
    undecided: tuple[Judgement, ...]
    missed: tuple[KeptPromise, ...]

    @property
    def bottleneck(self) -> Case | None:
        return self.findings[0].judgement.case if self.word is Word.BOTTLENECK else None


def judge(snapshot: Snapshot) -> Diagnosis:
    judged = [case(snapshot) for case in CASES]
    findings = _ordered([one for one in judged if one.state is State.FOUND], snapshot)
    missed = tuple(one for one in snapshot.objectives if one.is_missed)
    return Diagnosis(
        word=_word(findings, missed, snapshot),
        findings=findings,
        ruled_out=tuple(one for one in judged if one.state is State.RULED_OUT),
        undecided=tuple(one for one in judged if one.state is State.UNDECIDED),
        missed=missed,
    )


def timed(now: Diagnosis, whole: Diagnosis, ended_s: Callable[[Case], float | None]) -> Diagnosis:
    """Return the findings at the window's end (``now``), then earlier ones with the seconds since."""
    held = {one.judgement.case for one in now.findings}
    past = [
        replace(one, ended_s=ended_s(one.judgement.case)) for one in whole.findings if one.judgement.case not in held
    ]
    found = held | {one.judgement.case for one in past}
    return replace(
        whole,
        word=Word.BOTTLENECK if Word.BOTTLENECK in (now.word, whole.word) else whole.word,
        findings=(*now.findings, *sorted(past, key=_lateness)),
        ruled_out=tuple(one for one in whole.ruled_out if one.case not in found),
        undecided=tuple(one for one in whole.undecided if one.case not in found),
    )


def _lateness(finding: Finding) -> tuple[bool, float]:
    return finding.effect_of is not None, inf if finding.ended_s is None else finding.ended_s


def _ordered(found: list[Judgement], snapshot: Snapshot) -> tuple[Finding, ...]:
    findings = [
        Finding(judgement=one, at_stake=snapshot.missed(*one.harms), effect_of=_cause(one, found)) for one in found
    ]
    return tuple(
        sorted(findings, key=lambda one: (one.effect_of is not None, not one.at_stake, -one.judgement.strength))
    )


def _cause(one: Judgement, found: list[Judgement]) -> Case | None:
    causes = [other for other in found if one.case in other.brings]
    return max(causes, key=lambda other: other.strength).case if causes else None


def _word(findings: tuple[Finding, ...], missed: tuple[KeptPromise, ...], snapshot: Snapshot) -> Word:
    known = [one for one in snapshot.objectives if one.is_missed is not None]
    if findings and (findings[0].at_stake or not _is_timely(findings[0], known)):
        return Word.BOTTLENECK
    if missed:
        return Word.UNEXPLAINED
    return Word.HEALTHY if known else Word.UNKNOWN


def _is_timely(finding: Finding, known: list[KeptPromise]) -> bool:
    harmed = finding.judgement.harms
    return any(one.indicator.is_timed for one in known if one.indicator in harmed)
