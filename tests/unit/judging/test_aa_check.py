"""The judge's own test: measured between equals, it lowers what a second counts, and tells when equals differ."""

import math
import random

from penstock.domain.ids import WorkerId
from penstock.domain.rollout.arms import Stratum, Times, bucket
from penstock.judging.aa_check import CAP, AACheck

STRATUM = Stratum(6, 4)
A, B, C = (WorkerId(name) for name in "abc")


def play(
    seconds: int, *, own_sd: float = 0.0, slower: float = 1.0, workers: tuple[WorkerId, ...] = (A, B, C)
) -> AACheck:
    """Let each serve ten requests a second, ``own_sd`` apart for half a minute at a time, the first so much slower."""
    chance, test, pace = random.Random(5), AACheck(), dict.fromkeys(workers, 1.0)
    for at in range(1, seconds + 1):
        if at % 30 == 0:
            pace = {worker: math.exp(chance.gauss(0.0, own_sd)) for worker in workers}
        given = {}
        for worker in workers:
            factor = pace[worker] * (slower if worker == workers[0] else 1.0)
            took = [bucket(factor * chance.lognormvariate(-1.0, 0.5)) for _ in range(10)]
            given[worker] = [Times(STRATUM, tuple(sorted((one, took.count(one)) for one in set(took))))]
        test.observe(at, given, 0.62)
    return test


def test_equals_leave_the_cap_as_it_is() -> None:
    """Where workers are alike, a second may count what it may at most, and nothing alarms."""
    test = play(600)
    assert test.cap == CAP
    assert not test.is_rejected(math.log(1e5))


def test_neighbours_that_are_alike_count_for_less() -> None:
    """Workers that drift apart for half a minute at a time lower the cap; the wider the lower."""
    rough, rougher = play(900, own_sd=0.3), play(900, own_sd=0.6)
    assert rougher.cap < rough.cap < CAP


def test_a_worker_that_is_worse_than_its_equals_makes_the_judge_unfit() -> None:
    """Twice as slow is no test: the comparison between equals alarms."""
    assert play(600, slower=2.0).is_rejected(math.log(1e5))


def test_one_worker_alone_tells_nothing() -> None:
    """Nobody to compare with: the cap is the usual one."""
    test = play(300, workers=(A,))
    assert (test.cap, test.is_rejected(0.01)) == (CAP, False)


def test_workers_that_are_gone_are_forgotten() -> None:
    """A fleet that is renewed every hour keeps no memory of each worker that there ever was."""
    test = AACheck()
    for at in range(1, 400):
        test.observe(at, {WorkerId(f"w{at // 10}"): [Times(STRATUM, ((5, 1),))]}, 0.62)
    assert len(test._others) < 10
