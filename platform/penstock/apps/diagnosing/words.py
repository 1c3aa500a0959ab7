"""Values and thresholds in words: one way for screen and JSON."""

from penstock.diagnosis.evidence import Check, Judgement, Remedy, Unit
from penstock.diagnosis.snapshot import Kept
from penstock.explain.words import seconds

UNKNOWN = "unknown"


def amount(value: float | None, unit: Unit) -> str:
    """Return a value with its unit."""
    if value is None:
        return UNKNOWN
    if unit is Unit.RATIO:
        return f"{value:.0%}"
    if unit is Unit.SECONDS:
        return seconds(value)
    return f"{value:.3g}"


def compared(check: Check) -> str:
    """Return what was measured and what it is held against."""
    return f"{amount(check.value, check.unit)} (needs {check.sense} {amount(check.limit, check.unit)})"


def promise(kept: Kept) -> str:
    """Return a promise in few words."""
    within = f" within {seconds(kept.within_s)}" if kept.within_s else ""
    return f"{kept.tier} {kept.indicator}: {kept.promised_ratio * 100:.4g} %{within}"


def was_kept(kept: Kept) -> str:
    """Return how far it was kept."""
    if kept.good_ratio is None:
        return f"unknown ({kept.events:.0f} events)"
    return f"{kept.good_ratio * 100:.4g} %{' MISSED' if kept.is_missed else ''}"


def why_not(judgement: Judgement) -> str:
    """Return why a case is ruled out: the evidence that fails."""
    return "; ".join(f"{check.says}: {compared(check)}" for check in judgement.failing)


def what_lacks(judgement: Judgement) -> str:
    """Return the metrics that would have to be known."""
    return ", ".join(dict.fromkeys(check.metric for check in judgement.unknown))


def how(remedy: Remedy) -> str:
    """Return the command or setting of a remedy."""
    if remedy.command:
        return remedy.command
    return f"set {remedy.setting}" if remedy.setting else ""
