"""A/A check: the candidate's comparison, run permanently between the incumbent's own workers.

These workers run the same version, so they should be equal. The variance of their mean ranks shows how many of a
second's requests are independent, and a rejection shows that the judge is unfit.
"""

from collections import deque
from collections.abc import Iterable, Mapping

from penstock.domain.ids import WorkerId
from penstock.domain.rollout.arms import Times
from penstock.judging.e_process import EProcess
from penstock.judging.strata import FORGIVEN, SPAN_S, Ranks

BIN_S = 10
BINS = 90
"""A quarter of an hour in bins of ten seconds."""
LEAST_BINS = 12
CAP = 1.0
"""The most requests that a second counts as, also without a measurement."""
LEAST_CAP = 0.05
PER_INDEPENDENT = 2.5
"""Requests that a second may count per independent one: the tolerance in the null hypothesis covers the rest."""
_VARIANCE = 1.0 / 12.0
"""Variance of a rank among equal workers."""


class AACheck:
    """Compares each of the incumbent's workers with its other workers of the last minute."""

    def __init__(self) -> None:
        self._others: dict[WorkerId, Ranks] = {}
        self._alarms: dict[WorkerId, EProcess] = {}
        self._bins: deque[tuple[float, int]] = deque(maxlen=BINS)
        self._open: dict[WorkerId, list[float]] = {}
        self._bin = 0
        self._count = self._spread = 0.0
        """Of the bins: their requests, and the squares of how far their mean ranks stray."""
        self._heard: dict[WorkerId, int] = {}
        self.cap = CAP
        """How many requests of a second count at most."""

    def observe(self, at: int, workers: Mapping[WorkerId, Iterable[Times]], mean: float) -> None:
        given = {worker: tuple(times) for worker, times in workers.items()}
        if at // BIN_S != self._bin:
            self._close(at // BIN_S)
        for worker in given:
            if worker not in self._others:
                self._others[worker], self._alarms[worker] = Ranks(), EProcess(forgets=True)
            self._heard[worker] = at
        for worker in [one for one, heard in self._heard.items() if heard < at - SPAN_S]:
            del self._heard[worker], self._others[worker], self._alarms[worker]
        cap = self.cap
        for worker, others in self._others.items():
            others.add(at, [one for name, times in given.items() if name != worker for one in times])
            own = given.get(worker, ())
            (counts, forgiven), _ = others.scores_by(own, (0, FORGIVEN))
            if counts:
                self._alarms[worker].observe(forgiven, mean, cap)
                sums = self._open.setdefault(worker, [0.0, 0.0])
                sums[0] += sum([score * count for score, count in counts.items()])
                sums[1] += sum(counts.values())

    def is_rejected(self, log_odds: float) -> bool:
        return any(one.reaches(log_odds) for one in self._alarms.values())

    def _measured(self) -> float:
        if len(self._bins) < LEAST_BINS:
            return CAP
        many, spread = self._count / len(self._bins), self._spread / len(self._bins)
        independent_per_s = _VARIANCE / max(spread, _VARIANCE / many) / BIN_S
        return min(CAP, max(LEAST_CAP, PER_INDEPENDENT * independent_per_s))

    def _close(self, following: int) -> None:
        self._bins.extend((total / many, int(many)) for total, many in self._open.values() if many)
        self._count = sum([count for _, count in self._bins])
        self._spread = sum([(mean - 0.5) ** 2 for mean, _ in self._bins])
        self._open, self._bin = {}, following
        self.cap = self._measured()
