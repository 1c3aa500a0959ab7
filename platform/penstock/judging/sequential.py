"""One metric's sequential tests: for holding, for aborting, and for promoting."""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from penstock.domain.ids import TenantId
from penstock.domain.rollout.arms import BUCKETS, PRICE_BUCKETS, Times
from penstock.domain.rollout.judgement import Metric, MetricFinding, Verdict
from penstock.judging.e_process import RARE, EProcess, GainTable, mirrored
from penstock.judging.gates import Gates, RankGate, ScoreGate, ShareGate
from penstock.judging.leave_one_out import EventLeaveOneOut, PriceLeaveOneOut
from penstock.judging.prices import NO_PRICES, Prices
from penstock.judging.strata import FORGIVEN, Ranks

NO_TENANTS: Mapping[TenantId, int] = MappingProxyType({})
KNOWN_S = 300
"""Seconds over which the incumbent's own share is averaged."""
UNWAITED = (Metric.PRICE, Metric.EMPTY, Metric.CUT, Metric.JSON, Metric.FILTERED)
"""Metrics of requests that may be rare: no promotion waits for a sample of them."""
ALONE = "not enough for an abort if one tenant is left out"
LEAST_KNOWN = 50
"""Events of the incumbent below which its own share is unknown."""


class _Test:
    _sample: int

    def __init__(self, metric: Metric, gates: Gates) -> None:
        self._metric, self._odds, self._caps, self._least = metric, gates.odds, gates.per_second, gates.min_sample

    def _told(self, verdict: Verdict, bets: EProcess, odds: float, says: str) -> MetricFinding:
        return MetricFinding(
            metric=self._metric,
            verdict=verdict,
            strength=_strength(bets, odds) if self._sample else None,
            sample=self._sample,
            says=says,
            lacks=max(0, self._least - self._sample) if verdict is Verdict.WAIT else 0,
        )


class RankTest(_Test):
    def __init__(self, metric: Metric, gate: RankGate, gates: Gates) -> None:
        super().__init__(metric, gates)
        self._gate = gate
        self._forgiven = FORGIVEN if metric is not Metric.PRICE else 0
        self._ranks = Ranks(BUCKETS if metric is not Metric.PRICE else PRICE_BUCKETS)
        self._gains = _rows(gate)
        self._hold, self._abort, self._brake = (EProcess(forgets=True) for _ in range(3))
        self._leave_one_out = PriceLeaveOneOut(gate.abort, gate.brake) if metric is Metric.PRICE else None
        self._finding: MetricFinding | None = None
        self.next_stage()
        self._unmatched = self._all = 0

    def next_stage(self) -> None:
        self._proof, self._sample, self._sum = EProcess(forgets=False), 0, 0.0
        self._is_told = False

    def observe(
        self,
        at: int,
        candidate: Iterable[Times],
        incumbent: Iterable[Times],
        cap: float,
        prices: Prices = NO_PRICES,
    ) -> None:
        theirs = tuple(incumbent)
        caps = min(cap, self._caps.abort), self._caps.brake * min(1.0, cap)
        if self._leave_one_out is not None:
            self._leave_one_out.observe(at, (self._ranks, self._abort, self._brake), prices, caps)
        self._ranks.add(at, theirs)
        if theirs and not self._all:
            self._is_told = False
        self._all += sum([count for _, counts in theirs for _, count in counts])
        counts, unmatched = self._ranks.scores(candidate, self._forgiven)
        for score, count in prices.told().items():
            counts[score] = counts.get(score, 0) + count
        if unmatched or counts:
            self._is_told = False
        self._unmatched += unmatched
        if not counts:
            return
        many = sum(counts.values())
        self._sample += many
        self._sum += sum([score * count for score, count in counts.items()])
        weight = min(1.0, caps[0] / many)
        hold, abort, brake, proof = self._gains.gains(counts)
        self._hold.add(hold, weight)
        self._abort.add(abort, weight)
        self._brake.add(brake, min(1.0, caps[1] / many))
        self._proof.add(proof, weight)

    @property
    def finding(self) -> MetricFinding | None:
        if not self._is_told:
            self._is_told, self._finding = True, self._found()
        return self._finding

    def _found(self) -> MetricFinding | None:
        if not self._all and not self._sample:
            return None
        mean = self._sum / self._sample if self._sample else None
        forgiven = ", a tenth forgiven" if self._forgiven else ""
        said = f"mean rank {mean:.2f} among the incumbent's{forgiven}, " if mean is not None else ""
        said = f"{self._metric}: {said}{self._sample} comparable requests"
        said += f", {self._unmatched} without any to compare with" if self._unmatched else ""
        tests = (
            (Verdict.ABORT, self._abort, self._odds.abort, self._gate.abort),
            (Verdict.ABORT, self._brake, self._odds.brake, self._gate.brake),
            (Verdict.HOLD, self._hold, self._odds.hold, self._gate.hold),
        )
        for verdict, bets, odds, tolerated in tests:
            if bets.reaches(math.log(odds)):
                return self._harm(verdict, bets, odds, f"{said}; more than {tolerated:.2f} is tolerated")
        strength = _strength(self._proof, self._odds.promote)
        is_enough = self._sample >= self._least
        if self._metric in UNWAITED and not is_enough:
            return None
        proven = strength >= 1.0 and is_enough
        verdict = Verdict.PROMOTE if proven else Verdict.WAIT
        return self._told(
            verdict, self._proof, self._odds.promote, f"{said}; below {self._gate.promote:.2f} is to be proven"
        )

    def _harm(self, verdict: Verdict, bets: EProcess, odds: float, said: str) -> MetricFinding:
        enough = math.log(self._odds.abort), math.log(self._odds.brake)
        if (
            verdict is Verdict.ABORT
            and self._leave_one_out is not None
            and not self._leave_one_out.holds_without_any(*enough)
        ):
            verdict, said = Verdict.HOLD, f"{said}; {ALONE}"
        return self._told(verdict, bets, odds, said)


class ScoreTest(_Test):
    def __init__(self, metric: Metric, gate: ScoreGate, gates: Gates) -> None:
        super().__init__(metric, gates)
        self._gate = gate
        self._hold, self._abort, self._proof = EProcess(forgets=True), EProcess(forgets=True), EProcess(forgets=False)
        self._sample, self._sum = 0, 0.0

    def observe(self, percents: Sequence[tuple[int, int]]) -> None:
        """Add counts by score, as pairs of percent and count; each counted request is independent."""
        if not percents:
            return
        counts = dict[float, int]()
        for percent, count in percents:
            counts[percent / 100] = counts.get(percent / 100, 0) + count
        self._sample += sum(counts.values())
        self._sum += sum([score * count for score, count in counts.items()])
        self._hold.observe(counts, self._gate.hold)
        self._abort.observe(counts, self._gate.abort)
        self._proof.observe(mirrored(counts), 1.0 - self._gate.promote)

    def finding(self, *, is_needed: bool) -> MetricFinding | None:
        """Return None without evidence if no proof is needed. A proof stays valid at every share."""
        mean = f"{self._sum / self._sample:.1%}" if self._sample else "nothing yet"
        said = f"{self._metric}: {mean} of the tokens of {self._sample} answers would have been others"
        tests = ((Verdict.ABORT, self._abort, self._gate.abort), (Verdict.HOLD, self._hold, self._gate.hold))
        for verdict, bets, tolerated in tests:
            if bets.reaches(math.log(self._odds.share)):
                return self._told(verdict, bets, self._odds.share, f"{said}; more than {tolerated:.0%} is tolerated")
        proven = _strength(self._proof, self._odds.promote) >= 1.0 and self._sample >= self._least
        if not proven and not is_needed:
            return None
        says = f"{said}; below {self._gate.promote:.0%} is to be proven"
        return self._told(Verdict.PROMOTE if proven else Verdict.WAIT, self._proof, self._odds.promote, says)


class ShareTest(_Test):
    def __init__(self, metric: Metric, gate: ShareGate, gates: Gates) -> None:
        super().__init__(metric, gates)
        self._gate = gate
        self._known: deque[tuple[int, int, int]] = deque()
        self._known_so = self._known_all = 0
        self._hold, self._abort = EProcess(RARE, forgets=True), EProcess(RARE, forgets=True)
        self._leave_one_out = EventLeaveOneOut()
        self._finding: MetricFinding | None = None
        self.next_stage()

    def next_stage(self) -> None:
        self._proof, self._so, self._sample = EProcess(RARE, forgets=False), 0, 0
        self._is_told = False

    def observe(
        self,
        at: int,
        candidate: tuple[int, int],
        incumbent: tuple[int, int],
        whose: Mapping[TenantId, int] = NO_TENANTS,
    ) -> None:
        if self._remember(at, *incumbent) or candidate[1]:
            self._is_told = False
        so, all_ = candidate
        hold, abort = (self._gate.mean(self._ratio, over) for over in (self._gate.hold, self._gate.abort))
        if not all_ or hold is None or abort is None:
            return
        self._so, self._sample = self._so + so, self._sample + all_
        counts = {1.0: so, 0.0: all_ - so}
        cap = math.inf if self._metric is Metric.BAD else self._caps.share
        self._hold.observe(counts, hold, cap)
        self._leave_one_out.observe(self._abort, whose, all_, abort, cap)
        self._abort.observe(counts, abort, cap)
        self._proof.observe(mirrored(counts), 1.0 - abort, cap)

    @property
    def finding(self) -> MetricFinding | None:
        """Return None if neither version has such events.

        Events that few callers ask for need no proof, but harm counts at once.
        """
        if not self._is_told:
            self._is_told, self._finding = True, self._found()
        return self._finding

    def _found(self) -> MetricFinding | None:
        if not self._sample and not self._known_all:
            return None
        said = f"{self._metric}: {self._so} of {self._sample}"
        if self._known_all:
            said += f", the incumbent {self._known_so} of {self._known_all}"
        for verdict, bets in ((Verdict.ABORT, self._abort), (Verdict.HOLD, self._hold)):
            if bets.reaches(math.log(self._odds.share)):
                return self._harm(verdict, bets, said)
        is_enough = self._sample >= self._least
        if self._metric in UNWAITED and not is_enough:
            return None
        proven = _strength(self._proof, self._odds.share_promote) >= 1.0 and is_enough
        return self._told(Verdict.PROMOTE if proven else Verdict.WAIT, self._proof, self._odds.share_promote, said)

    def _harm(self, verdict: Verdict, bets: EProcess, said: str) -> MetricFinding:
        """Events that callers can cause abort only if the evidence holds without any one tenant."""
        is_enough = self._metric is Metric.BAD or self._leave_one_out.holds_without_any(math.log(self._odds.share))
        if verdict is Verdict.ABORT and not is_enough:
            verdict, said = Verdict.HOLD, f"{said}; {ALONE}"
        return self._told(verdict, bets, self._odds.share, said)

    @property
    def _ratio(self) -> float | None:
        return self._known_so / self._known_all if self._known_all >= LEAST_KNOWN else None

    def _remember(self, at: int, so: int, all_: int) -> bool:
        """Add a second's events and drop expired seconds; return True if the totals changed."""
        before = len(self._known)
        while self._known and self._known[0][0] <= at - KNOWN_S:
            _, gone, of = self._known.popleft()
            self._known_so, self._known_all = self._known_so - gone, self._known_all - of
        if all_:
            self._known.append((at, so, all_))
            self._known_so, self._known_all = self._known_so + so, self._known_all + all_
        return bool(all_) or len(self._known) != before


@lru_cache
def _rows(gate: RankGate) -> GainTable:
    return GainTable(((gate.hold, False), (gate.abort, False), (gate.brake, False), (1.0 - gate.promote, True)))


def _strength(bets: EProcess, odds: float) -> float:
    return bets.log_wealth / math.log(odds)
