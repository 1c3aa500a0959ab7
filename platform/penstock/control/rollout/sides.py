"""One metric's evidence: against holding, against aborting, and for going on."""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from penstock.control.rollout.bets import RARE, Bets, Rows, turned
from penstock.control.rollout.cells import FORGIVEN, Ranks
from penstock.control.rollout.gates import Gates, RankGate, ScoreGate, ShareGate
from penstock.control.rollout.priced import NO_PRICES, Prices, Purses
from penstock.control.rollout.voices import Voices
from penstock.domain.ids import TenantId
from penstock.domain.rollout.arms import BUCKETS, PRICE_BUCKETS, Times
from penstock.domain.rollout.judgement import Metric, MetricFinding, Verdict

NOBODY: Mapping[TenantId, int] = MappingProxyType({})
KNOWN_S = 300
"""The incumbent's own share is that of so many seconds."""
UNWAITED = (Metric.PRICE, Metric.EMPTY, Metric.CUT, Metric.JSON)
"""Of requests that leave their end to the model, which may be few: nobody waits for a sample of them."""
ALONE = "too little for an abort without one of its tenants"
LEAST_KNOWN = 50
"""Events of the incumbent below which its own share is unknown."""


class RankedSides:
    """A metric whose scores are ranks among the incumbent's."""

    def __init__(self, metric: Metric, gate: RankGate, gates: Gates) -> None:
        self._metric, self._gate, self._odds, self._caps = metric, gate, gates.odds, gates.per_second
        self._least = gates.min_sample
        self._forgiven = FORGIVEN if metric is not Metric.PRICE else 0
        self._ranks = Ranks(BUCKETS if metric is not Metric.PRICE else PRICE_BUCKETS)
        self._rows = _rows(gate)
        self._hold, self._abort, self._brake = (Bets(forgets=True) for _ in range(3))
        self._purses = Purses(gate.abort, gate.brake) if metric is Metric.PRICE else None
        self._finding: MetricFinding | None = None
        self.next_stage()
        self._alone = self._all = 0

    def next_stage(self) -> None:
        """Ask for a new proof: another share is another load. The watch for harm goes on."""
        self._proof, self._sample, self._sum = Bets(forgets=False), 0, 0.0
        self._is_told = False

    def slot(
        self,
        at: int,
        candidate: Iterable[Times],
        incumbent: Iterable[Times],
        cap: float,
        prices: Prices = NO_PRICES,
    ) -> None:
        """Take a second of both; ``cap`` is what the noise between equals lets it count; of prices, whose they are."""
        theirs = tuple(incumbent)
        caps = min(cap, self._caps.abort), self._caps.brake * min(1.0, cap)
        if self._purses is not None:
            self._purses.slot(at, (self._ranks, self._abort, self._brake), prices, caps)
        self._ranks.add(at, theirs)
        if theirs and not self._all:
            self._is_told = False
        self._all += sum([count for _, counts in theirs for _, count in counts])
        counts, alone = self._ranks.scores(candidate, self._forgiven)
        for score, count in prices.told().items():
            counts[score] = counts.get(score, 0) + count
        if alone or counts:
            self._is_told = False
        self._alone += alone
        if not counts:
            return
        many = sum(counts.values())
        self._sample += many
        self._sum += sum([score * count for score, count in counts.items()])
        weight = min(1.0, caps[0] / many)
        hold, abort, brake, proof = self._rows.won(counts)
        self._hold.take(hold, weight)
        self._abort.take(abort, weight)
        self._brake.take(brake, min(1.0, caps[1] / many))
        self._proof.take(proof, weight)

    @property
    def finding(self) -> MetricFinding | None:
        """What it says now; None where the incumbent has nothing to compare with, so that nothing needs a proof."""
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
        said += f", {self._alone} without company" if self._alone else ""
        sides = (
            (Verdict.ABORT, self._abort, self._odds.abort, self._gate.abort),
            (Verdict.ABORT, self._brake, self._odds.brake, self._gate.brake),
            (Verdict.HOLD, self._hold, self._odds.hold, self._gate.hold),
        )
        for verdict, bets, odds, tolerated in sides:
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

    def _harm(self, verdict: Verdict, bets: Bets, odds: float, said: str) -> MetricFinding:
        """Return what speaks against the candidate; a price, which callers can make, aborts nothing by one's word."""
        enough = math.log(self._odds.abort), math.log(self._odds.brake)
        if verdict is Verdict.ABORT and self._purses is not None and not self._purses.agree(*enough):
            verdict, said = Verdict.HOLD, f"{said}; {ALONE}"
        return self._told(verdict, bets, odds, said)

    def _told(self, verdict: Verdict, bets: Bets, odds: float, says: str) -> MetricFinding:
        strength = _strength(bets, odds) if self._sample else None
        return _finding(self._metric, verdict, strength, (self._sample, self._least), says)


class ScoreSides:
    """A metric whose scores are told as they are, in percent: 0 where the two are equal."""

    def __init__(self, metric: Metric, gate: ScoreGate, gates: Gates) -> None:
        self._metric, self._gate, self._odds, self._least = metric, gate, gates.odds, gates.min_sample
        self._hold, self._abort, self._proof = Bets(forgets=True), Bets(forgets=True), Bets(forgets=False)
        self._sample, self._sum = 0, 0.0

    def slot(self, percents: Sequence[tuple[int, int]]) -> None:
        """Take a second's: pairs of percent and count. Each is of another request, and a witness of its own."""
        if not percents:
            return
        counts = dict[float, int]()
        for percent, count in percents:
            counts[percent / 100] = counts.get(percent / 100, 0) + count
        self._sample += sum(counts.values())
        self._sum += sum([score * count for score, count in counts.items()])
        self._hold.slot(counts, self._gate.hold)
        self._abort.slot(counts, self._gate.abort)
        self._proof.slot(turned(counts), 1.0 - self._gate.promote)

    def finding(self, *, is_needed: bool) -> MetricFinding | None:
        """What it says now; None where that is nothing yet, and no proof is needed. A proof holds at every share."""
        mean = f"{self._sum / self._sample:.1%}" if self._sample else "nothing yet"
        said = f"{self._metric}: {mean} of the tokens of {self._sample} answers would have been others"
        sides = ((Verdict.ABORT, self._abort, self._gate.abort), (Verdict.HOLD, self._hold, self._gate.hold))
        for verdict, bets, tolerated in sides:
            if bets.reaches(math.log(self._odds.share)):
                return self._told(verdict, bets, self._odds.share, f"{said}; more than {tolerated:.0%} is tolerated")
        proven = _strength(self._proof, self._odds.promote) >= 1.0 and self._sample >= self._least
        if not proven and not is_needed:
            return None
        says = f"{said}; below {self._gate.promote:.0%} is to be proven"
        return self._told(Verdict.PROMOTE if proven else Verdict.WAIT, self._proof, self._odds.promote, says)

    def _told(self, verdict: Verdict, bets: Bets, odds: float, says: str) -> MetricFinding:
        strength = _strength(bets, odds) if self._sample else None
        return _finding(self._metric, verdict, strength, (self._sample, self._least), says)


class ShareSides:
    """A metric whose scores are 0 or 1: the part of events that are so."""

    def __init__(self, metric: Metric, gate: ShareGate, gates: Gates) -> None:
        self._metric, self._gate, self._odds, self._caps = metric, gate, gates.odds, gates.per_second
        self._least = gates.min_sample
        self._known: deque[tuple[int, int, int]] = deque()
        self._known_so = self._known_all = 0
        self._hold, self._abort = Bets(RARE, forgets=True), Bets(RARE, forgets=True)
        self._voices = Voices()
        self._finding: MetricFinding | None = None
        self.next_stage()

    def next_stage(self) -> None:
        """Ask for a new proof. The watch for harm goes on."""
        self._proof, self._so, self._sample = Bets(RARE, forgets=False), 0, 0
        self._is_told = False

    def slot(
        self,
        at: int,
        candidate: tuple[int, int],
        incumbent: tuple[int, int],
        whose: Mapping[TenantId, int] = NOBODY,
    ) -> None:
        """Take a second of both: how many events were so, of how many, and whose the candidate's were."""
        if self._remember(at, *incumbent) or candidate[1]:
            self._is_told = False
        so, all_ = candidate
        hold, abort = (self._gate.mean(self._ratio, over) for over in (self._gate.hold, self._gate.abort))
        if not all_ or hold is None or abort is None:
            return
        self._so, self._sample = self._so + so, self._sample + all_
        counts = {1.0: so, 0.0: all_ - so}
        cap = math.inf if self._metric is Metric.BAD else self._caps.share
        self._hold.slot(counts, hold, cap)
        self._voices.slot(self._abort, whose, all_, abort, cap)
        self._abort.slot(counts, abort, cap)
        self._proof.slot(turned(counts), 1.0 - abort, cap)

    @property
    def finding(self) -> MetricFinding | None:
        """What it says now; None where neither has such events.

        Few callers may ask for JSON, or leave the end to the model: nobody waits for a proof of it there, but what
        speaks against the candidate counts at once.
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

    def _harm(self, verdict: Verdict, bets: Bets, said: str) -> MetricFinding:
        """Return what speaks against the candidate; what callers can make aborts nothing by one tenant's word alone."""
        is_enough = self._metric is Metric.BAD or self._voices.agree(math.log(self._odds.share))
        if verdict is Verdict.ABORT and not is_enough:
            verdict, said = Verdict.HOLD, f"{said}; {ALONE}"
        return self._told(verdict, bets, self._odds.share, said)

    @property
    def _ratio(self) -> float | None:
        return self._known_so / self._known_all if self._known_all >= LEAST_KNOWN else None

    def _remember(self, at: int, so: int, all_: int) -> bool:
        """Take the incumbent's of a second, and let go what is old; True where that changes anything."""
        before = len(self._known)
        while self._known and self._known[0][0] <= at - KNOWN_S:
            _, gone, of = self._known.popleft()
            self._known_so, self._known_all = self._known_so - gone, self._known_all - of
        if all_:
            self._known.append((at, so, all_))
            self._known_so, self._known_all = self._known_so + so, self._known_all + all_
        return bool(all_) or len(self._known) != before

    def _told(self, verdict: Verdict, bets: Bets, odds: float, says: str) -> MetricFinding:
        strength = _strength(bets, odds) if self._sample else None
        return _finding(self._metric, verdict, strength, (self._sample, self._least), says)


def _finding(
    metric: Metric, verdict: Verdict, strength: float | None, sample: tuple[int, int], says: str
) -> MetricFinding:
    """Return a finding of a sample that there is, and the least one."""
    many, least = sample
    lacks = max(0, least - many) if verdict is Verdict.WAIT else 0
    return MetricFinding(metric=metric, verdict=verdict, strength=strength, sample=many, says=says, lacks=lacks)


@lru_cache
def _rows(gate: RankGate) -> Rows:
    """Return what the sides of a gate win by a rank: one table for all who judge by it."""
    return Rows(((gate.hold, False), (gate.abort, False), (gate.brake, False), (1.0 - gate.promote, True)))


def _strength(bets: Bets, odds: float) -> float:
    return bets.log_evidence / math.log(odds)
