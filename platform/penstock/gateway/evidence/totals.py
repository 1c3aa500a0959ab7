"""Totals of one arm in one second: ends, histograms of times and prices, tokens, and their tenants.

Histograms are bounded; events beyond the bound are only counted.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.domain.ids import Alias, TenantId, VersionId, WorkerId
from penstock.domain.rollout.arms import MOST_STRATA, ArmCounts, Exposed, Priced, Stratum, Times, Worse

MOST_EXPOSED = 50
"""Tenants of an arm named in a second, those with the most."""


class Arm(NamedTuple):
    alias: Alias
    version: VersionId
    worker: WorkerId


@dataclass(slots=True)
class Totals:
    ttft: Counter[tuple[Stratum, int]] = field(default_factory=Counter)
    itl: Counter[tuple[Stratum, int]] = field(default_factory=Counter)
    price: Counter[tuple[Stratum, int]] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    differ: Counter[int] = field(default_factory=Counter)
    paired: Counter[int] = field(default_factory=Counter)
    prices: dict[TenantId, Counter[tuple[Stratum, int] | int]] = field(default_factory=dict)
    """Both price histograms by tenant."""
    tokens: Counter[str] = field(default_factory=Counter)
    exposed: Counter[TenantId] = field(default_factory=Counter)
    worse: Counter[tuple[TenantId, str]] = field(default_factory=Counter)
    left_out: int = 0

    def spoil(self, tenant: TenantId, what: str) -> None:
        """Count the tenant, too, so that one alone can't decide."""
        self.ends[what] += 1
        self.worse[tenant, what] += 1

    def time(self, of: Counter[tuple[Stratum, int]], where: Stratum, place: int) -> bool:
        key = (where, place)
        if key not in of and len(of) >= MOST_STRATA * 4:
            self.left_out += 1
            return False
        of[key] += 1
        return True

    def pay(self, tenant: TenantId, what: tuple[Stratum, int] | int) -> None:
        self.prices.setdefault(tenant, Counter())[what] += 1

    def told(self, arm: Arm) -> ArmCounts:
        ends, tokens = self.ends, self.tokens
        return ArmCounts(
            alias=arm.alias,
            version=arm.version,
            worker=arm.worker,
            ttft=_times(self.ttft),
            itl=_times(self.itl),
            price=_times(self.price),
            good=ends["good"],
            bad=ends["bad"],
            refused=ends["refused"],
            answers=ends["answers"],
            empty=ends["empty"],
            cut=ends["cut"],
            json_asked=ends["json asked"],
            json_broken=ends["json_broken"],
            shown=ends["shown"],
            filtered=ends["filtered"],
            differ=tuple(sorted(self.differ.items())),
            paired=tuple(sorted(self.paired.items())),
            priced=_priced_by(self.prices),
            prompt_tokens=tokens["prompt"],
            output_tokens=tokens["output"],
            exposed=tuple(Exposed(tenant, many) for tenant, many in self.exposed.most_common(MOST_EXPOSED)),
            worse=tuple(Worse(*who, many) for who, many in self.worse.most_common(MOST_EXPOSED)),
        )


def _priced_by(prices: Mapping[TenantId, Counter[tuple[Stratum, int] | int]]) -> tuple[Priced, ...]:
    most = sorted(prices, key=lambda tenant: prices[tenant].total(), reverse=True)[:MOST_EXPOSED]
    found = []
    for tenant in most:
        price = Counter({what: many for what, many in prices[tenant].items() if not isinstance(what, int)})
        paired = sorted((what, many) for what, many in prices[tenant].items() if isinstance(what, int))
        found.append(Priced(tenant, _times(price), tuple(paired)))
    return tuple(found)


def _times(counts: Counter[tuple[Stratum, int]]) -> tuple[Times, ...]:
    strata: dict[Stratum, list[tuple[int, int]]] = {}
    for (where, place), many in sorted(counts.items()):
        strata.setdefault(where, []).append((place, many))
    return tuple(Times(where, tuple(places)) for where, places in strata.items())
