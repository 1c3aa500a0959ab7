"""A worker that its machine slows down, among good ones, in virtual time: its share, and callers' first tokens."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from penstock.domain.ids import WorkerId
from penstock.domain.serving.report import Load
from penstock.gateway.routing.selection import SampleSettings
from penstock.worker.gate.queueing.estimates import Slowness
from tests.simulation.test_sampled_picks import Ask, Fleet, Pace, Seen, Worker

GOOD = Pace()
SLOWED = 0.6 / 0.09
"""A process that is stopped for 0.51 of every 0.6 s."""
SLOW_S = (20.0, 80.0)
END_S = 200.0
PER_S = 6.0
"""Requests of four workers: each is idle for most of the time, so its queue tells nothing."""
W0 = WorkerId("w0")


class Judged(Worker):
    """A worker whose gate predicts its first tokens, and tells a pace that is lower by how late they come."""

    def __init__(self, *, learns: bool, is_slowed: bool) -> None:
        super().__init__(GOOD)
        self.learns, self.is_slowed = learns, is_slowed
        self.slowness = Slowness()
        self.took: list[tuple[float, float, float]] = []
        self.asked: list[float] = []

    def take(self, ask: Ask, block_size: int) -> tuple[float, int]:
        is_slow = self.is_slowed and SLOW_S[0] <= ask.at < SLOW_S[1]
        ahead = max(0.0, self.free_at - ask.at) * self.pace.prefill_tokens_per_s
        times = SLOWED if is_slow else 1.0
        self.pace = replace(GOOD, prefill_tokens_per_s=GOOD.prefill_tokens_per_s / times, token_s=GOOD.token_s * times)
        took_s, hit = super().take(ask, block_size)
        predicted_s = (ahead + ask.prompt_tokens) / GOOD.prefill_tokens_per_s
        self.took.append((ask.at + took_s, took_s, predicted_s))
        self.asked.append(ask.at)
        return took_s, hit

    def load(self, now: float) -> Load:
        for at, took_s, predicted_s in [one for one in self.took if one[0] <= now and self.learns]:
            self.slowness.learn(took_s, predicted_s, at)
        self.took = [one for one in self.took if one[0] > now]
        return replace(super().load(now), pace_per_s=1000.0 / self.slowness.ratio(now))


def asks() -> Iterator[Ask]:
    """Yield prompts of very unlike lengths, with short answers."""
    chance, now = random.Random(3), 0.0
    while (now := now + chance.expovariate(PER_S)) < END_S:
        prompt = max(1, min(8_000, int(chance.lognormvariate(6.7, 0.85))))
        yield Ask(at=now, prompt_tokens=prompt, output_tokens=8)


def played(*, learns: bool) -> tuple[Seen, list[float]]:
    """Return the first tokens while one of four workers is slow, and the moments at which that one was asked."""
    fleet = Fleet(4, 1, SampleSettings(), pace=GOOD, block_size=16, seed=1)
    fleet.workers |= {name: Judged(learns=learns, is_slowed=name == W0) for name in fleet.workers}
    all_asks = list(asks())
    seen = fleet.play(all_asks)
    while_slow = [s for s, ask in zip(seen.ttft_s, all_asks, strict=True) if SLOW_S[0] + 10 <= ask.at < SLOW_S[1]]
    worker = fleet.workers[W0]
    assert isinstance(worker, Judged)
    return Seen(ttft_s=while_slow), worker.asked


def share(asked: list[float], begin: float, end: float) -> float:
    return sum(begin <= at < end for at in asked) / (PER_S * (end - begin))


def test_a_slow_worker_among_good_ones_gets_few_requests(record_property: Callable[[str, object], None]) -> None:
    """Ten seconds after it was slowed few go there, so p95 is halved; once it is quick again it has its share."""
    blind, blind_asked = played(learns=False)
    seen, asked = played(learns=True)
    record_property("p95_s", (blind.quantile(0.95), seen.quantile(0.95)))
    assert share(blind_asked, 30, 80) == pytest.approx(0.25, abs=0.08)
    assert share(asked, 30, 80) < 0.15
    assert share(asked, 140, 200) == pytest.approx(0.25, abs=0.08)
    assert seen.quantile(0.95) < 0.6 * blind.quantile(0.95)
