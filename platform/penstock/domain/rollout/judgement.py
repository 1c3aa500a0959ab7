"""A judge's verdict on a candidate and its findings, as recorded in a rollout's history."""

from dataclasses import dataclass
from enum import StrEnum

from penstock.domain.ids import VersionId


class Verdict(StrEnum):
    """Mildest first. Missing evidence gives ``wait``, which neither promotes nor aborts."""

    PROMOTE = "promote"
    """Proven no worse everywhere, on the minimum sample and after the minimum time."""
    WAIT = "wait"
    HOLD = "hold"
    """Worse than one of the narrower tolerances: a person must decide."""
    ABORT = "abort"


class Metric(StrEnum):
    """Each is a key of the gates in ``slo/rollout.yaml``."""

    TTFT = "ttft"
    ITL = "itl"
    BAD = "bad"
    REFUSED = "refused"
    EMPTY = "empty"
    CUT = "cut"
    JSON = "json"
    FILTERED = "filtered"
    """The share of answers that a safety pack ended."""
    PRICE = "price"
    """The price of an answer: prompt and output tokens at the version's prices."""
    ANSWERS = "answers"
    """The share of the incumbent's next tokens that the candidate would have chosen otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFinding:
    """One metric's evidence. A ``strength`` of 1.0 or more decides; None without evidence."""

    metric: Metric
    verdict: Verdict
    strength: float | None
    sample: int
    """Comparable requests of the candidate behind the finding."""
    says: str
    """The finding in words and figures, for people."""
    lacks: int = 0
    """Requests still missing from the minimum sample, however strong the evidence is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A judgement at a moment (Unix seconds); the deciding findings come first."""

    version: VersionId
    at: float
    verdict: Verdict
    findings: tuple[MetricFinding, ...] = ()
    tokens_ratio: float | None = None
    """The candidate's part of both versions' tokens in the last five minutes; None with too few tokens."""
    unfit: str = ""
    """The reason why times can't be judged (the incumbent's own workers differ as much); these findings then wait."""
