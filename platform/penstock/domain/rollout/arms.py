"""Evidence for rollouts and experiments: one gateway's counts per arm and second.

An arm is a version behind an alias, at one worker. It contains counts and histograms only, no request and no text;
requests that name a version instead of an alias are left out. Times go into buckets of 10 % growth, in strata of
similar requests: prompt tokens to compute, and requests running at the same worker.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from penstock.domain.ids import Alias, TenantId, VersionId, WorkerId
from penstock.domain.serving.agreement import Agreement

BUCKETS = 110
PRICE_BUCKETS = 330
FIRST_S = 0.005
GROWTH = 1.1
MOST_STRATA = 256
"""Strata of one histogram in a second; a gateway omits the rest and counts them in ``left_out``."""


DEARER = (1 / 1.25, 1 / 1.02, 1.02, 1.25)
"""The ratios of two prices that separate the classes of ``dearness``: within 2 % they are alike."""
PERCENTS = 101
"""Whole percents of an answer's tokens that differ, 0 to 100."""
MOST_COUNTED = 1_000_000
MOST_TOKENS = 1_000_000_000
MOST_SECONDS = 10_000_000_000
"""A bound on seconds of one gateway's life, and since 1970: three centuries."""
MOST_BITS = 64


MINUTE_S = 60.0
ASKED_KEPT_S = 8 * 86_400.0
"""Counts of aliases' requests are kept by the minute for a week and a day."""


class Stratum(NamedTuple):
    """log2 of uncached prompt tokens, half of a log2 of running requests."""

    prompt: int
    running: int


class Times(NamedTuple):
    """Pairs of bucket and count, by bucket."""

    stratum: Stratum
    counts: tuple[tuple[int, int], ...]


class Exposed(NamedTuple):
    tenant: TenantId
    tokens: int


WORSE = ("refused", "empty", "cut", "json_broken", "filtered")
"""Counts that a tenant's prompts can influence."""


class Worse(NamedTuple):
    tenant: TenantId
    what: str
    many: int


class Priced(NamedTuple):
    tenant: TenantId
    price: tuple[Times, ...] = ()
    paired: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmCounts:
    """``good`` and ``bad`` count a sticky key once in 10 s, so that one caller's retries are one event; ``bad`` spends
    the error budget. The other counts count requests. A request with an unknown value is left out of both counts of
    a pair.
    """

    alias: Alias
    version: VersionId
    worker: WorkerId
    ttft: tuple[Times, ...] = ()
    itl: tuple[Times, ...] = ()
    price: tuple[Times, ...] = ()
    """Uncached costs of callers' answers, in buckets of ``price_bucket``; the stratum is that of the body's bytes,
    which versions share.
    """
    paired: tuple[tuple[int, int], ...] = ()
    """Copies by price relative to their originals: pairs of ``dearness`` and count."""
    priced: tuple[Priced, ...] = ()
    """The tenants with the largest parts of these prices; the unnamed rest counts as one tenant's."""
    good: int = 0
    bad: int = 0
    refused: int = 0
    """Bodies too long for this version alone, or copied from another version's answer and refused: sticky keys once;
    also in no other pair.
    """
    answers: int = 0
    """Answers whose length the model decided, not a bound."""
    empty: int = 0
    cut: int = 0
    """Answers that ended by length although their caller set no bound below the tier's own."""
    json_asked: int = 0
    json_broken: int = 0
    shown: int = 0
    """Answers that were whole, or that a safety pack ended."""
    filtered: int = 0
    differ: tuple[tuple[int, int], ...] = ()
    """Answers scored by both versions, by the percent of tokens with different likeliest ones."""
    prompt_tokens: int = 0
    output_tokens: int = 0
    exposed: tuple[Exposed, ...] = ()
    worse: tuple[Worse, ...] = ()
    """The tenants with the most of these events; the unnamed rest counts as one tenant's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSecond:
    """``number`` grows by one within a ``life`` of the process; ``at`` is its Unix second."""

    gateway: str
    life: str
    number: int
    at: int
    arms: tuple[ArmCounts, ...] = ()
    asked: tuple[tuple[Alias, int], ...] = ()
    """Ended requests by alias, including aliases of a single version."""
    left_out: int = 0
    """Requests omitted because the bounded histograms were full."""
    agreements: tuple[Agreement, ...] = ()
    """Results of the comparisons between rules."""

    @property
    def is_evidence(self) -> bool:
        return bool(self.arms) or not (self.asked or self.agreements)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentRequests:
    """Requests of the last ``over_s`` seconds: less than asked for if gateways began to count later."""

    requests: int
    over_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A stored second: its id, its time of arrival (Unix seconds), its counts (None if they cannot be decoded)."""

    id: int
    at: float
    second: ArmSecond | None


def fault(second: ArmSecond) -> str:
    """Describe the inconsistency in a gateway's second; empty if there is none."""
    is_then = 1 <= second.number <= MOST_SECONDS and 0 <= second.at <= MOST_SECONDS
    if not is_then or not 0 <= second.left_out <= MOST_COUNTED:
        return "its number, time or count is none that there can be"
    return next((found for arm in second.arms if (found := _fault_of(arm))), "")


def _fault_of(arm: ArmCounts) -> str:
    ends = (arm.good, arm.bad, arm.refused, arm.answers, arm.empty, arm.cut, arm.shown, arm.filtered)
    if not all(0 <= one <= MOST_COUNTED for one in (*ends, arm.json_asked, arm.json_broken)):
        return "a count is below 0 or above what a second can hold"
    tokens = (arm.prompt_tokens, arm.output_tokens, *(one.tokens for one in arm.exposed))
    if not all(0 <= one <= MOST_TOKENS for one in tokens):
        return "tokens are below 0 or above what a second can hold"
    parts = ((max(arm.empty, arm.cut), arm.answers), (arm.json_broken, arm.json_asked), (arm.filtered, arm.shown))
    if (
        any(part > whole for part, whole in parts)
        or not all(_is_part(one, arm) for one in arm.worse)
        or not _are_priced(arm)
    ):
        return "a part is more than the whole"
    for times, buckets in ((arm.ttft, BUCKETS), (arm.itl, BUCKETS), (arm.price, PRICE_BUCKETS)):
        if not all(_is_sound(one, buckets) for one in times):
            return "a histogram has strata, buckets or counts that there are not"
    if not (_are_sound(arm.differ, PERCENTS) and _are_sound(arm.paired, len(DEARER) + 1)):
        return "answers differ by percents, or in price by steps, that there are not"
    told = ((arm.price, arm.paired), *((one.price, one.paired) for one in arm.priced))
    return "" if all(_is_told_once(*one) for one in told) else "a price, or a copy's, is told twice"


def _is_part(worse: Worse, arm: ArmCounts) -> bool:
    is_known = worse.what in WORSE
    return is_known and 0 < worse.many <= getattr(arm, worse.what)


def _are_priced(arm: ArmCounts) -> bool:
    if not arm.priced:
        return True
    named, copies = Counter[tuple[Stratum, int]](), Counter[int]()
    for one in arm.priced:
        for stratum_, counts in one.price:
            for place, many in counts:
                named[stratum_, place] += many if many > 0 else MOST_COUNTED
        for step, many in one.paired:
            copies[step] += many if many > 0 else MOST_COUNTED
    whole = Counter({(stratum_, place): many for stratum_, counts in arm.price for place, many in counts})
    return named <= whole and copies <= Counter(dict(arm.paired))


def _is_told_once(price: Iterable[Times], paired: Iterable[tuple[int, int]]) -> bool:
    places = [(times.stratum, place) for times in price for place, _ in times.counts]
    steps = [step for step, _ in paired]
    return len(set(places)) == len(places) and len(set(steps)) == len(steps)


def asked_since(requests: int, first: int | None, since: int, now: float) -> RecentRequests:
    begin = MINUTE_S * max(since, since if first is None else first)
    return RecentRequests(requests=requests, over_s=max(MINUTE_S, now - begin))


def _are_sound(counts: Iterable[tuple[int, int]], places: int) -> bool:
    return all(0 <= place < places and 0 < many <= MOST_COUNTED for place, many in counts)


def _is_sound(times: Times, buckets: int) -> bool:
    return (
        0 <= times.stratum.prompt <= MOST_BITS
        and 0 <= times.stratum.running <= MOST_BITS
        and _are_sound(times.counts, buckets)
    )


def bucket(seconds: float) -> int:
    """0 up to 5 ms, 109 from 162 s on."""
    if seconds <= FIRST_S:
        return 0
    return min(BUCKETS - 1, 1 + int(math.log(seconds / FIRST_S) / _LOG_GROWTH))


def price_bucket(tokens_times_price: int) -> int:
    """Return the bucket of a price in tokens times micro-dollars per million, unrounded."""
    return min(PRICE_BUCKETS - 1, int(math.log(tokens_times_price) / _LOG_GROWTH)) if tokens_times_price > 1 else 0


def dearness(own: int, other: int) -> int:
    """Compare with another answer to the same request: 0 much cheaper, 2 alike, 4 much dearer."""
    if not other:
        return _ALIKE if not own else len(DEARER)
    return sum(own / other > ratio for ratio in DEARER)


def stratum(uncached_tokens: int, running: int) -> Stratum:
    return Stratum(max(0, uncached_tokens).bit_length(), (max(0, running) ** 2).bit_length())


_LOG_GROWTH = math.log(GROWTH)
_ALIKE = 2
