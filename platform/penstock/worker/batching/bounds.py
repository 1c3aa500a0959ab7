"""Maximum length of a batch: a running batch cannot be taken back, and later requests wait for it. Pure.

A tenant alone gets batches of half the time that the SLO allows, so that a newcomer is not late for that reason alone.
Beside others the batch is bounded by the tenants' parts together; a part is the items that compute in an eighth of the
SLO, or in 1.5 times a single item if that is more. A device that gains from batching still gets large batches, another
one single items. Virtual time, not the parts, decides whose items are in the batch.

Trade-off (ADR 0078): small batches lose part of the gain of full ones while one tenant floods beside others.
"""

from penstock.worker.batching.compute import Computes
from penstock.worker.batching.group import Group
from penstock.worker.batching.settings import BatchSettings

ALONE_PART = 0.5
BESIDE_PART = 0.125
"""The part of the promised seconds that one batch may take, and that a tenant's items in it may beside others."""
SINGLE = 1.5
"""So many times a single item's compute a batch may take in any case."""


def most_items(settings: BatchSettings, computes: Computes, group: Group, most: int, *, are_several: bool) -> int:
    """Return a batch's maximum items; one for an unmeasured bucket."""
    key = group.key
    if not settings.slo_s or most == 1:
        return most
    if not computes.is_measured(key):
        return 1
    single_s = SINGLE * computes.p50(key, 1)
    alone_s = max(ALONE_PART * settings.slo_s, single_s)
    if not are_several:
        return computes.most_within(key, alone_s, most)
    each = computes.most_within(key, max(BESIDE_PART * settings.slo_s, single_s), most)
    if each == 1 or each >= min(most, len(group)):  # what gains nothing by company gains nothing by others' either
        return each
    together = sum(min(each, waiting) for waiting in group.counts())
    return min(together, computes.most_within(key, alone_s, most))
