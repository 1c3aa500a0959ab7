"""The record of an ended request for ``penstock explain``: figures and names, never prompt or answer text.

Tuples, because one is made for each request; an unknown value is None, never 0. New fields come last and have a
default: older lines on disk are still read.
"""

from typing import NamedTuple

from penstock.domain.errors import (
    ContextTooLong,
    Evicted,
    Failed,
    NoRuleFits,
    PenstockError,
    Rejected,
    StoreUnavailable,
    TooDear,
)
from penstock.domain.outcome import Stage
from penstock.domain.serving.report import Adapted, Batched, Waited

_OURS = (Rejected, Evicted, Failed, StoreUnavailable, ContextTooLong, NoRuleFits, TooDear)
"""Errors whose messages contain only our figures; others may quote a caller's text."""


class Refusal(NamedTuple):
    code: str
    reason: str | None = None
    says: str = ""
    retry_after_s: float | None = None

    @classmethod
    def of(cls, error: PenstockError) -> "Refusal":
        says = error.message if isinstance(error, _OURS) else ""
        return cls(error.code, error.reason, says, error.retry_after_s)


class Drawn(NamedTuple):
    """A draw on a meter, with the meter's rest after it; for a refused request, before it."""

    meter: str
    amount: int
    left: int | None
    capacity: int


class Considered(NamedTuple):
    worker: str
    score: float | None
    work_tokens: float
    cached_tokens: int
    kv_used_ratio: float
    wait_s: float


class Choice(NamedTuple):
    """The chosen worker, the number of serving workers, and the best-scored candidates. Workers that are ejected, full
    or have failed this request are no candidates; of a large version's workers only a sample is scored.
    """

    worker: str
    serving: int
    met_before: int
    compared: int
    best: tuple[Considered, ...] = ()


class Ruled(NamedTuple):
    """The matching rule, empty if none did; ``passed`` names each earlier rule and why it did not match."""

    alias: str
    rule: str
    to: str
    passed: tuple[tuple[str, str], ...] = ()


class Tried(NamedTuple):
    worker: str
    sent_s: float
    failed: str = ""
    door: Waited | str | None = None
    """Text in these fields is from before 0.1.0, and is not read."""
    batch: Batched | str | None = None
    adapter: Adapted | str | None = None


class RequestRecord(NamedTuple):
    """``at`` is its arrival in Unix seconds."""

    id: str
    tenant: str
    key: str
    at: float
    api: str
    outcome: str
    seconds: float
    stages_s: dict[Stage, float] = {}  # noqa: RUF012  never changed; a tuple's default
    refusal: Refusal | None = None
    version: str = ""
    tier: str = ""
    stream: bool = False
    standing: str = ""
    over_quota: bool = False
    deadline_s: float | None = None
    degraded: tuple[str, ...] = ()
    drawn: tuple[Drawn, ...] | None = None
    """None if the limits were never asked."""
    most_tokens: tuple[int, int] | None = None
    """The most tokens that prompt and answer could have."""
    expected_output: int | None = None
    choices: tuple[Choice, ...] = ()
    attempts: tuple[Tried, ...] = ()
    continued_s: tuple[float, ...] = ()
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    exact: bool = False
    steps: int | None = None
    """Engine steps that made the request's tokens, counted once per sequence."""
    beside: int | None = None
    """The sequences that shared those steps, the request's own included, summed over the steps."""
    ttft_s: float | None = None
    longest_gap_s: float | None = None
    price: tuple[int, int, int] | None = None
    """Micro-dollars for a million tokens: prompt, cached, output."""
    promised: tuple[float, float, float] | None = None
    """Promised seconds of the tier: to the first token, between tokens, to the answer's end; 0 for no promise."""
    own_deadline: bool = False
    """Whether the caller's deadline was shorter than its plan's and its tier's."""
    gaps: int | None = None
    late_gaps: int | None = None
    """Gaps between tokens longer than promised."""
    most_late_ratio: float = 0.0
    """The share of gaps that may be longer than promised."""
    replay_of: str = ""
    """The request whose answer was repeated under the idempotency key; empty if this was no replay."""
    is_own: bool | None = None
    """Whether the caller caused the end; None if unknown at the end, and in older records."""
    fell_back_from: str = ""
    """The version with the alias's share, which could take no requests; empty if it answered itself."""
    ruled: Ruled | None = None
    """Of a request for an auto alias: which rule decided."""
    service_tier: str = ""
    price_factor: float = 1.0
    """The service tier's factor, already contained in ``price``."""
    visible_s: float | None = None
    """``ttft_s`` and what a filter held back before the first token left; None in older records."""
