"""The judge beside other ways to judge, on the same virtual traffic: ``-m tests.simulation.judges [RUNS [TRAFFIC]]``.

For each traffic: how often an equal candidate is aborted and promoted in half an hour, and how soon a worse one is
found (median seconds; the part that is found where it is not all). The others are what is in use elsewhere: a threshold
on the p95 five minutes in a row, a Mann-Whitney test of all so far, asked every five seconds, and a mixture of
likelihood ratios (mSPRT), which may be asked at any time.
"""

import math
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from penstock.apps import slos
from penstock.domain.models.model import Tier
from penstock.domain.rollout.arms import GROWTH, ArmCounts, ArmSecond, Stratum, Times
from penstock.domain.rollout.judgement import Verdict
from penstock.judging.gates import Gates
from penstock.judging.judge import Judge
from tests.support.gateways.simulated_arms import ALIAS, NEW, OLD, Regression, World

HALF_AN_HOUR_S = 1800
GATES = slos.gates(Tier.CHAT)
NO_CAP = replace(GATES, per_second=replace(GATES.per_second, abort=1e9, brake=1e9))


class Judging(Protocol):
    """A way to judge: a second in, a verdict out."""

    def __call__(self, second: ArmSecond) -> Verdict:
        """Return what is to be said after this second."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A rollout: the time of its abort, and of its promotion before that; None without one."""

    aborted_at: int | None
    promoted_at: int | None


class Ours:
    """The judge, as it is or with a part taken out."""

    def __init__(self, gates: Gates = GATES, seen: Callable[[ArmSecond], ArmSecond] = lambda second: second) -> None:
        self._judge, self._seen = Judge(gates, ALIAS, OLD, NEW), seen

    def __call__(self, second: ArmSecond) -> Verdict:
        self._judge.take(self._seen(second), second.at + 1.0)
        return self._judge.judgement(second.at + 1.0).verdict


class Threshold:
    """The p95 of the last minute above 1.2 times the incumbent's, five minutes in a row."""

    def __init__(self) -> None:
        self._minute: dict[bool, Counter[int]] = {True: Counter(), False: Counter()}
        self._failed = 0

    def __call__(self, second: ArmSecond) -> Verdict:
        _add(self._minute, second)
        if second.at % 60:
            return Verdict.WAIT
        mine, theirs = (_quantile(self._minute[is_new], 0.95) for is_new in (True, False))
        self._minute = {True: Counter(), False: Counter()}
        if mine is None or theirs is None:
            return Verdict.WAIT
        self._failed = self._failed + 1 if 1.1 ** (mine - theirs) > 1.2 else 0
        return Verdict.ABORT if self._failed >= 5 else Verdict.WAIT


class MannWhitney:
    """One test after the other on all so far, at one per cent, every five seconds."""

    def __init__(self) -> None:
        self._all: dict[bool, Counter[int]] = {True: Counter(), False: Counter()}

    def __call__(self, second: ArmSecond) -> Verdict:
        _add(self._all, second)
        mine, theirs = self._all[True], self._all[False]
        n, m = mine.total(), theirs.total()
        if second.at % 5 or n < 20 or m < 20:
            return Verdict.WAIT
        below, u = 0, 0.0
        for place in sorted(set(mine) | set(theirs)):
            u += mine[place] * (below + 0.5 * theirs[place])
            below += theirs[place]
        z = (u - n * m / 2) / math.sqrt(n * m * (n + m + 1) / 12)
        return Verdict.ABORT if z > 2.326 else Verdict.WAIT


class MixtureRatio:
    """A mixture sequential probability ratio test on the log of times, as A/B platforms use it, at one per cent.

    Always valid, for what it is asked: whether two means differ, of requests that have nothing to do with each other.
    Source: Johari, Pekelis, Walsh, "Always Valid Inference", 2015; variance by the plug-in of both samples.
    """

    MIXING = 0.1**2
    """Variance of the differences it expects, in log seconds: a tenth."""
    LEVEL = 0.01
    LEAST = 20

    def __init__(self) -> None:
        self._all: dict[bool, Counter[int]] = {True: Counter(), False: Counter()}

    def __call__(self, second: ArmSecond) -> Verdict:
        _add(self._all, second)
        mine, theirs = self._all[True], self._all[False]
        if min(mine.total(), theirs.total()) < self.LEAST:
            return Verdict.WAIT
        (mean, noise), (other, others_noise) = _mean(mine), _mean(theirs)
        variance, differs = noise + others_noise, mean - other
        evidence = 0.5 * math.log(variance / (variance + self.MIXING)) + differs**2 * self.MIXING / (
            2 * variance * (variance + self.MIXING)
        )
        return Verdict.ABORT if differs > 0 and evidence > -math.log(self.LEVEL) else Verdict.WAIT


WAYS: dict[str, Callable[[], Judging]] = {
    "the judge": Ours,
    "without cap": lambda: Ours(NO_CAP),
    "without strata": lambda: Ours(seen=one_cell),
    "p95, 5 minutes": Threshold,
    "Mann-Whitney, repeated": MannWhitney,
    "mSPRT": MixtureRatio,
}
TRAFFIC = {
    "2/s at 25 %": (2.0, 0.25),
    "20/s at 5 %": (20.0, 0.05),
    "20/s at 25 %": (20.0, 0.25),
    "200/s at 5 %": (200.0, 0.05),
}
WORSE = {
    "1.5x": Regression(slower=1.5),
    "2x": Regression(slower=2.0),
    "3x": Regression(slower=3.0),
    "2x after ten minutes": Regression(slower=2.0, since=600),
    "5 % bad": Regression(bad=0.05),
    "all bad": Regression(bad=1.0),
    "twice the tokens": Regression(dearer=2.0),
}


def play(way: Judging, seconds: Iterable[ArmSecond]) -> Played:
    """Judge every second until it is aborted, or the time is over."""
    promoted_at = None
    for second in seconds:
        verdict = way(second)
        if verdict is Verdict.ABORT:
            return Played(aborted_at=second.at, promoted_at=promoted_at)
        if verdict is Verdict.PROMOTE and promoted_at is None:
            promoted_at = second.at
    return Played(aborted_at=None, promoted_at=promoted_at)


def one_cell(second: ArmSecond) -> ArmSecond:
    """Return the second as a judge without cells sees it."""

    def flat(times: tuple[Times, ...]) -> tuple[Times, ...]:
        counts = Counter[int]()
        for one in times:
            counts.update(dict(one.counts))
        return (Times(Stratum(0, 0), tuple(sorted(counts.items()))),)

    def seen(arm: ArmCounts) -> ArmCounts:
        priced = tuple(one._replace(price=flat(one.price)) for one in arm.priced)
        return replace(arm, ttft=flat(arm.ttft), itl=flat(arm.itl), price=flat(arm.price), priced=priced)

    return replace(second, arms=tuple(map(seen, second.arms)))


def _add(sums: dict[bool, Counter[int]], second: ArmSecond) -> None:
    for arm in second.arms:
        for times in arm.ttft:
            sums[arm.version == NEW].update(dict(times.counts))


def _mean(counts: Counter[int]) -> tuple[float, float]:
    """Return the mean of the log seconds, and the variance of that mean."""
    many = counts.total()
    mean = sum(place * count for place, count in counts.items()) / many
    spread = sum((place - mean) ** 2 * count for place, count in counts.items()) / (many - 1)
    step = math.log(GROWTH)
    return mean * step, max(spread, 1 / 12) * step**2 / many


def _quantile(counts: Counter[int], part: float) -> int | None:
    left = part * counts.total()
    for place in sorted(counts):
        left -= counts[place]
        if left <= 0:
            return place
    return None


def equals(runs: int, per_s: float, share: float) -> dict[str, list[Played]]:
    """Return what each way says of equal candidates, all of the same traffic."""
    found: dict[str, list[Played]] = {name: [] for name in WAYS}
    for i in range(runs):
        # Sticky tenants: nine of ten of the candidate's prompts are long, a third of the incumbent's.
        seconds = list(World(seed=i, per_s=per_s, share=share, long_ratio=0.9).seconds(HALF_AN_HOUR_S))
        for name, way in WAYS.items():
            found[name].append(play(way(), seconds))
    return found


def lines(runs: int, only: str = "") -> Iterator[str]:
    """Yield the table, row by row as it comes; ``only`` that of one traffic."""
    for traffic, (per_s, share) in TRAFFIC.items():
        if only not in ("", traffic):
            continue
        yield f"\n{traffic}: {per_s * share:g} requests of the candidate a second, {runs} rollouts each"
        for name, ran in equals(runs, per_s, share).items():
            aborted = sum(one.aborted_at is not None for one in ran)
            promoted = [one.promoted_at for one in ran if one.promoted_at is not None]
            after = f", promoted {len(promoted) / runs:.1%} after {statistics.median(promoted):g} s" if promoted else ""
            yield f"  {'equal':<21} {name:<23} aborted {aborted / runs:.1%}{after}"
        for name, regression in WORSE.items():
            worlds = [World(seed=i, per_s=per_s, share=share, regression=regression) for i in range(runs)]
            ran = [play(Ours(), world.seconds(HALF_AN_HOUR_S)) for world in worlds]
            took = [one.aborted_at - regression.since for one in ran if one.aborted_at is not None]
            through = sum(one.promoted_at is not None and not regression.since for one in ran)
            found = f"found {len(took) / runs:.1%}" + (f" after {statistics.median(took):g} s" if took else "")
            yield f"  {name:<21} {'the judge':<23} {found}, promoted {through / runs:.1%}"


if __name__ == "__main__":
    for line in lines(int(sys.argv[1]) if len(sys.argv) > 1 else 200, "".join(sys.argv[2:3])):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
