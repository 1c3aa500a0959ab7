"""How many tokens an answer will probably have: a learned quantile per tenant and model.

Reserving ``max_tokens`` would fill a budget at no spend (LiteLLM #38647); reserving the mean would overshoot half
the time. A high quantile of what this tenant's answers really had is in between, and streams that outgrow it are
topped up while they run.

Trade-off: after a change of traffic the quantile is wrong until some tens of answers have come. Counts are kept in
half-octave buckets (41 % wide) and halved now and then, so memory is small and old traffic fades.
"""

import math
from collections import OrderedDict

from penstock.domain.ids import TenantId, VersionId

BUCKETS_PER_OCTAVE = 2
BUCKETS = 40
"""Up to 2**20 tokens."""
FADE_AT = 512
"""Halve the counts when so many answers have been seen."""


class OutputExpectation:
    """Learned output lengths; the least recently used pairs of tenant and version are forgotten first."""

    def __init__(
        self, *, quantile: float = 0.9, prior_tokens: int = 256, prior_weight: int = 8, most: int = 4096
    ) -> None:
        """Expect ``prior_tokens`` with the weight of so many answers until real ones have come."""
        self._quantile = quantile
        self._prior = _bucket(prior_tokens)
        self._prior_weight = prior_weight
        self._most = most
        self._counts: OrderedDict[tuple[TenantId, VersionId], list[int]] = OrderedDict()

    def tokens(self, tenant: TenantId, version: VersionId, worst_case: int) -> int:
        """Return the tokens to reserve: the quantile, and never more than the worst case."""
        counts = self._counts.get((tenant, version))
        if counts is None:
            return min(worst_case, _upper(self._prior))
        rank = self._quantile * sum(counts)
        for bucket, count in enumerate(counts):
            rank -= count
            if rank <= 0:
                return min(worst_case, _upper(bucket))
        return worst_case

    def learn(self, tenant: TenantId, version: VersionId, tokens: int) -> None:
        """Take in the length of an answer that ended by itself."""
        counts = self._counts.get((tenant, version))
        if counts is None:
            counts = self._counts[tenant, version] = [0] * BUCKETS
            counts[self._prior] = self._prior_weight
            if len(self._counts) > self._most:
                self._counts.popitem(last=False)
        self._counts.move_to_end((tenant, version))
        counts[_bucket(tokens)] += 1
        if sum(counts) >= FADE_AT:
            counts[:] = [count >> 1 for count in counts]


def _bucket(tokens: int) -> int:
    return min(BUCKETS - 1, math.ceil(BUCKETS_PER_OCTAVE * math.log2(max(1, tokens))))


def _upper(bucket: int) -> int:
    return math.ceil(2 ** (bucket / BUCKETS_PER_OCTAVE))
