"""Seconds of evidence in virtual time: several workers of an incumbent, one of a candidate, each with a load of its
own.

The world of the published comparison that the judge's numbers are held against: Poisson arrivals, lognormal times (sd
0.5), one in fifty four times as long, a common load (sd 0.25, a minute) and one of each worker's own (sd 0.15, 15
seconds), so that neighbours are alike.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from penstock.domain.ids import Alias, TenantId, VersionId, WorkerId
from penstock.domain.rollout.arms import ArmCounts, ArmSecond, Priced, Stratum, Times, bucket, price_bucket, stratum

ALIAS, OLD, NEW = Alias("chat"), VersionId("chat@old"), VersionId("chat@new")
BASE_TTFT_S, BASE_ITL_S, TAIL = 0.3, 0.03, 4.0
LENGTHS = (64, 300, 1200)
COMPANY = 8
TENANTS = tuple(TenantId(f"tenant-{number}") for number in range(12))
"""Who asks, in turns: a tenant's answers are no dearer than another's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """How the candidate is worse from ``since`` on: times its times, its part of bad ends."""

    slower: float = 1.0
    bad: float = 0.0
    since: int = 0
    dearer: float = 1.0


@dataclass(slots=True)
class Process:
    """A load that wanders about nothing (Ornstein-Uhlenbeck), a second at a time."""

    sd: float
    tau_s: float
    chance: np.random.Generator
    value: float = 0.0

    def step(self) -> float:
        keep = np.exp(-1.0 / self.tau_s)
        self.value = keep * self.value + self.sd * np.sqrt(1.0 - keep**2) * self.chance.standard_normal()
        return self.value


@dataclass(slots=True, kw_only=True)
class World:
    """The traffic of one alias; ``per_s`` is all of it, ``share`` the candidate's part."""

    seed: int
    per_s: float
    share: float
    regression: Regression = field(default_factory=Regression)
    workers: int = 3
    own_sd: float = 0.15
    long_ratio: float = 1 / 3
    """The part of the candidate's prompts that is long: sticky tenants bring their own, the incumbent's are a third."""

    def seconds(self, count: int) -> Iterator[ArmSecond]:
        """Yield ``count`` seconds as one gateway tells them, from second 1 on."""
        chance = np.random.default_rng(self.seed)
        shared = Process(0.25, 60.0, chance)
        names = [(OLD, WorkerId(f"old-{i}")) for i in range(self.workers)] + [(NEW, WorkerId("new-0"))]
        own = [Process(self.own_sd, 15.0, chance) for _ in names]
        for at in range(1, count + 1):
            load = shared.step()
            arms = [
                self._arm(version, worker, load + process.step(), at, chance)
                for (version, worker), process in zip(names, own, strict=True)
            ]
            yield ArmSecond(gateway="g", life="one", number=at, at=at, arms=tuple(arms))

    def _arm(
        self, version: VersionId, worker: WorkerId, load: float, at: int, chance: np.random.Generator
    ) -> ArmCounts:
        is_new = version == NEW
        worse = self.regression if is_new and at >= self.regression.since else Regression()
        rate = self.per_s * (self.share if is_new else (1.0 - self.share) / self.workers)
        many = int(chance.poisson(rate))
        bad = int(chance.binomial(many, worse.bad)) if worse.bad else 0
        answered = many - bad
        long = self.long_ratio if is_new else 1 / 3
        prompts = chance.choice(LENGTHS, size=answered, p=[(1 - long) / 2, (1 - long) / 2, long])
        factor = np.where(chance.random(answered) < 0.02, TAIL, 1.0) * np.exp(load) * worse.slower
        ttft = (BASE_TTFT_S + prompts * 0.0004) * np.exp(0.5 * chance.standard_normal(answered)) * factor
        itl = BASE_ITL_S * np.exp(0.3 * chance.standard_normal(answered)) * factor
        strata = [stratum(int(tokens), COMPANY) for tokens in prompts]
        output = np.maximum(1, 60 * worse.dearer * np.exp(0.5 * chance.standard_normal(answered))).astype(int)
        prices = [price_bucket(4 * int(tokens) + int(prompt)) for tokens, prompt in zip(output, prompts, strict=True)]
        return ArmCounts(
            alias=ALIAS,
            version=version,
            worker=worker,
            ttft=histograms(strata, map(bucket, ttft)),
            itl=histograms(strata, map(bucket, itl)),
            price=histograms([Stratum(where.prompt, 0) for where in strata], prices),
            priced=tuple(_priced([Stratum(where.prompt, 0) for where in strata], prices, at)),
            good=answered,
            bad=bad,
            answers=answered,
            output_tokens=int(output.sum()),
        )


def _priced(strata: list[Stratum], prices: list[int], at: int) -> Iterator[Priced]:
    for number, (where, place) in enumerate(zip(strata, prices, strict=True)):
        yield Priced(TENANTS[(at + number) % len(TENANTS)], (Times(where, ((place, 1),)),))


def histograms(strata: Iterable[Stratum], buckets: Iterable[int]) -> tuple[Times, ...]:
    """Return buckets as a gateway counts them."""
    found: dict[Stratum, Counter[int]] = {}
    for where, place in zip(strata, buckets, strict=True):
        found.setdefault(where, Counter())[place] += 1
    return tuple(Times(where, tuple(sorted(counts.items()))) for where, counts in sorted(found.items()))
