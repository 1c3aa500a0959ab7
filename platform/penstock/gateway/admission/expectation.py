"""Predicts an answer's output tokens: a learned quantile per tenant, model and octave of the requested size.

Reserving ``max_tokens`` would fill a budget without any spend (LiteLLM #38647); the mean would be too little in half of
the cases. Counts in half-octave buckets (41 % wide) are halved regularly, so old traffic loses weight.

Trade-off: after a change of traffic the quantile is wrong for some tens of answers.
"""

import math
from collections import OrderedDict

from penstock.domain.ids import TenantId, VersionId
from penstock.domain.tenancy.cost import Cost

BUCKETS_PER_OCTAVE = 2
BUCKETS = 40
"""Up to 2**20 tokens."""
FADE_AT = 512
"""Answers after which the counts are halved."""


PRIOR_WEIGHT = 8
"""Answers that the first guess counts as."""
_Kind = tuple[TenantId, VersionId, int]
"""Tenant, model, and the octave of the requested size."""


class OutputExpectation:
    def __init__(self, *, quantile: float = 0.9, prior_tokens: int = 256, most: int = 4096) -> None:
        self._quantile = quantile
        self._prior = _bucket(prior_tokens)
        self._most = most
        self._counts: OrderedDict[_Kind, list[int]] = OrderedDict()

    def tokens(self, tenant: TenantId, version: VersionId, cost: Cost) -> int:
        return min(cost.output_tokens, self._each((tenant, version, cost.output_each.bit_length())) * cost.sequences)

    def _each(self, kind: _Kind) -> int:
        counts = self._counts.get(kind)
        if counts is None:
            return _upper(self._prior)
        rank = self._quantile * sum(counts)
        for bucket, count in enumerate(counts):
            rank -= count
            if rank <= 0:
                return _upper(bucket)
        return _upper(BUCKETS)

    def learn(self, tenant: TenantId, version: VersionId, cost: Cost, tokens: int) -> None:
        """Learn the tokens of all sequences of an answer that ended by itself."""
        kind = (tenant, version, cost.output_each.bit_length())
        counts = self._counts.get(kind)
        if counts is None:
            counts = self._counts[kind] = [0] * BUCKETS
            counts[self._prior] = PRIOR_WEIGHT
            if len(self._counts) > self._most:
                self._counts.popitem(last=False)
        self._counts.move_to_end(kind)
        counts[_bucket(-(-tokens // cost.sequences))] += 1
        if sum(counts) >= FADE_AT:
            counts[:] = [count >> 1 for count in counts]


def _bucket(tokens: int) -> int:
    return min(BUCKETS - 1, math.ceil(BUCKETS_PER_OCTAVE * math.log2(max(1, tokens))))


def _upper(bucket: int) -> int:
    return math.ceil(2 ** (bucket / BUCKETS_PER_OCTAVE))
