"""The judge of one candidate: it takes evidence by the second, and gives a judgement at any moment.

It compares the candidate's requests with similar ones of the incumbent. Missing evidence decides nothing: a silent
gateway, an idle candidate or a lost controller neither promotes nor aborts. If the A/A check rejects, response times
can't be judged: their findings and promotion wait; bad outcomes still count.

Trade-off: a second is judged three seconds late.
"""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from operator import attrgetter

from penstock.domain.ids import Alias, TenantId, VersionId, WorkerId
from penstock.domain.rollout.arms import WORSE, ArmCounts, ArmSecond, Times
from penstock.domain.rollout.judgement import Judgement, Metric, MetricFinding, Verdict
from penstock.judging.aa_check import CAP, AACheck
from penstock.judging.gates import RANKED, SCORED, SHARES, Gates
from penstock.judging.prices import NO_PRICES, prices
from penstock.judging.sequential import KNOWN_S, NO_TENANTS, RankTest, ScoreTest, ShareTest

LATE_S = 3
"""Seconds to wait for gateways' reports of a second; later reports are not counted."""
MOST_GATEWAYS = 4096
"""Gateway processes whose last number is kept."""
LEAST_TOKENS = 5000
"""Tokens below which the candidate's part is chance."""
AHEAD_S = 10
"""Seconds by which a report may lie in the future."""
TIMED = (Metric.TTFT, Metric.ITL)
"""Metrics that differ between workers by chance; prices do not."""
_HARM = (Verdict.ABORT, Verdict.HOLD)
TimesOf = Callable[[ArmCounts], tuple[Times, ...]]


class Judge:
    def __init__(
        self, gates: Gates, alias: Alias, incumbent: VersionId, candidate: VersionId, *, since: float = 0.0
    ) -> None:
        self._gates, self._alias, self._incumbent, self.candidate = gates, alias, incumbent, candidate
        self._ranked = {metric: RankTest(metric, gates.ranked[metric], gates) for metric in RANKED}
        self._scored = {metric: ScoreTest(metric, gates.scored[metric], gates) for metric in SCORED}
        self._shares = {metric: ShareTest(metric, gates.shares[metric], gates) for metric in SHARES}
        self._aa_checks = {metric: AACheck() for metric in TIMED}
        self._waiting: dict[int, list[ArmCounts]] = defaultdict(list)
        self._numbers: dict[tuple[str, str], int] = {}
        self._tokens: deque[tuple[int, int, int]] = deque()
        self._mine = self._both = 0
        """Of these tokens in all: the candidate's, and both versions'."""
        self._judged_to = math.floor(since)
        self.has_everything = False
        """The candidate has all of the alias: without a comparison its promises judge it."""
        self.needs_answers = False
        """No caller has seen its answers yet: a model that generates text must be proven to answer alike."""
        self._answers = 0
        self._said: Judgement | None = None
        self._said_of = (False, False)

    def next_stage(self) -> None:
        """Another share is another load and needs new proofs; evidence of harm is kept."""
        self._said = None
        for ranked in self._ranked.values():
            ranked.next_stage()
        for share in self._shares.values():
            share.next_stage()

    def take(self, second: ArmSecond, now: float, arms: Iterable[ArmCounts] | None = None) -> bool:
        """Return False if the second was counted before, is too late, or lies in the future.

        ``arms`` are the alias's arms, if known.
        """
        who = (second.gateway, second.life)
        if second.number <= self._numbers.get(who, 0) or not self._judged_to < second.at <= now + AHEAD_S:
            return False
        self._numbers[who] = second.number
        if len(self._numbers) > MOST_GATEWAYS:
            del self._numbers[next(iter(self._numbers))]
        mine = [arm for arm in second.arms if arm.alias == self._alias] if arms is None else arms
        self._waiting[second.at].extend([arm for arm in mine if arm.version in (self._incumbent, self.candidate)])
        return True

    def follow_clock(self, now: float) -> None:
        """The rollout may have started ahead of the store's clock."""
        if self._judged_to > now + AHEAD_S:
            self._judged_to = math.floor(now)

    def judgement(self, now: float) -> Judgement:
        """``now`` is Unix seconds by the store's clock."""
        due = [at for at in self._waiting if at <= now - LATE_S]
        for at in sorted(due):
            self._judge(at, self._waiting.pop(at))
        self._judged_to = max(self._judged_to, math.floor(now - LATE_S))
        asked = (self.has_everything, self.needs_answers)
        if self._said is None or due or asked != self._said_of:
            self._said, self._said_of = self._judged(now), asked
        elif now != self._said.at:
            self._said = replace(self._said, at=now, tokens_ratio=self._tokens_ratio(now))
        return self._said

    def _judged(self, now: float) -> Judgement:
        found = [one for tests in (self._ranked, self._shares) for test in tests.values() if (one := test.finding)]
        needed = self.needs_answers and self._answers > 0
        found += [one for test in self._scored.values() if (one := test.finding(is_needed=needed))]
        unfit = self._unfit()
        if self.has_everything:  # no incumbent to compare with any more: of its comparisons harm alone still counts
            found = [one for one in found if one.metric not in RANKED or one.verdict in _HARM]
        if unfit:
            found = [replace(one, verdict=Verdict.WAIT) if one.metric in TIMED else one for one in found]
        found.sort(key=_weight, reverse=True)
        return Judgement(
            version=self.candidate,
            at=now,
            verdict=_verdict(found, alone=self.has_everything),
            findings=tuple(found),
            tokens_ratio=self._tokens_ratio(now),
            unfit=unfit,
        )

    def _judge(self, at: int, arms: Iterable[ArmCounts]) -> None:
        mine, theirs = list[ArmCounts](), list[ArmCounts]()
        for arm in arms:
            (mine if arm.version == self.candidate else theirs).append(arm)
        self._count_tokens(at, mine, theirs)
        for metric, ranked in self._ranked.items():
            times_of, noise, cap = _TIMES[metric], self._aa_checks.get(metric), CAP
            if noise is not None:
                noise.observe(at, _by_worker(times_of, theirs), self._gates.ranked[metric].abort)
                cap = noise.cap
            new, old = ([times for arm in arms for times in times_of(arm)] for arms in (mine, theirs))
            ranked.observe(at, new, old, cap, prices(mine, theirs) if metric is Metric.PRICE else NO_PRICES)
        self._answers += sum([arm.answers + arm.output_tokens for arm in theirs])
        differ = [one for arm in mine for one in arm.differ]
        for scored in self._scored.values():
            scored.observe(differ)
        own_events, their_events = _events(mine), _events(theirs)
        for (metric, share), own, others in zip(self._shares.items(), own_events, their_events, strict=True):
            share.observe(at, own, others, _tenants_of(mine, metric, own[0]))

    def _count_tokens(self, at: int, mine: list[ArmCounts], theirs: list[ArmCounts]) -> None:
        own, others = (sum([arm.prompt_tokens + arm.output_tokens for arm in arms]) for arms in (mine, theirs))
        self._tokens.append((at, own, own + others))
        self._mine, self._both = self._mine + own, self._both + own + others

    def _tokens_ratio(self, now: float) -> float | None:
        while self._tokens and self._tokens[0][0] <= now - KNOWN_S:
            _, own, both = self._tokens.popleft()
            self._mine, self._both = self._mine - own, self._both - both
        return self._mine / self._both if self._both >= LEAST_TOKENS else None

    def _unfit(self) -> str:
        log_odds = math.log(self._gates.odds.abort)
        loud = [metric for metric, one in self._aa_checks.items() if one.is_rejected(log_odds)]
        if not loud:
            return ""
        return f"the incumbent's own workers differ in {', '.join(loud)} by more than is tolerated: look at them first"


def _verdict(found: list[MetricFinding], *, alone: bool) -> Verdict:
    """The worst finding's; ``promote`` needs a proof in each metric, at least one by comparison with the incumbent."""
    worst = next((one.verdict for one in found if one.verdict in _HARM), None)
    if worst is not None:
        return worst
    is_compared = bool(found) if alone else any(one.metric in RANKED for one in found)
    return Verdict.PROMOTE if is_compared and all(one.verdict is Verdict.PROMOTE for one in found) else Verdict.WAIT


def _weight(finding: MetricFinding) -> tuple[int, float]:
    return _ORDER[finding.verdict], finding.strength or 0.0


def _by_worker(times_of: TimesOf, arms: Iterable[ArmCounts]) -> dict[WorkerId, list[Times]]:
    found: dict[WorkerId, list[Times]] = {}
    for arm in arms:
        found.setdefault(arm.worker, []).extend(times_of(arm))
    return found


def _events(arms: list[ArmCounts]) -> tuple[tuple[int, int], ...]:
    """Return, for each metric of ``SHARES`` in order, its events and the requests that they are counted from."""
    good = bad = refused = empty = cut = answers = broken = asked = filtered = shown = 0
    for arm in arms:
        good, bad, refused = good + arm.good, bad + arm.bad, refused + arm.refused
        empty, cut, answers = empty + arm.empty, cut + arm.cut, answers + arm.answers
        broken, asked = broken + arm.json_broken, asked + arm.json_asked
        filtered, shown = filtered + arm.filtered, shown + arm.shown
    found = {
        Metric.BAD: (bad, bad + good),
        Metric.REFUSED: (refused, refused + good),
        Metric.EMPTY: (empty, answers),
        Metric.CUT: (cut, answers),
        Metric.JSON: (broken, asked),
        Metric.FILTERED: (filtered, shown),
    }
    return tuple([found[metric] for metric in SHARES])


def _tenants_of(arms: list[ArmCounts], metric: Metric, all_: int) -> Mapping[TenantId, int]:
    what = _WORSE.get(metric)
    if not all_ or what is None:
        return NO_TENANTS
    found = Counter[TenantId]()
    for arm in arms:
        found.update({one.tenant: one.many for one in arm.worse if one.what == what})
    nameless = all_ - sum(found.values())
    return found if nameless <= 0 else found | {TenantId(""): nameless}


_WORSE = dict(zip(SHARES[1:], WORSE, strict=True))  # Metric.BAD is nobody's: outcomes count once per sticky key
_ORDER = {verdict: place for place, verdict in enumerate(Verdict)}
_TIMES: dict[Metric, TimesOf] = {
    Metric.TTFT: attrgetter("ttft"),
    Metric.ITL: attrgetter("itl"),
    Metric.PRICE: attrgetter("price"),
}
