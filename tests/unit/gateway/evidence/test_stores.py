"""Stores that all versions share are evidence against none."""

from dataclasses import replace

import pytest

from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import Alias
from penstock.domain.serving.request_record import Refusal
from penstock.domain.tokens import UNKNOWN
from penstock.gateway.calls.call import Answer, Call
from penstock.gateway.evidence.counting import Arms, Shared
from penstock.gateway.routing.resolve import sticky_key
from tests.support.clock import ManualClock
from tests.support.samples import calls


@pytest.mark.parametrize("is_prepared", [True, False], ids=["limits store or disk", "its own files"])
def test_a_failed_store_of_all_versions_judges_none(clock: ManualClock, is_prepared: bool) -> None:
    """With the limits store or the disk away both versions answer 503, and the candidate has drawn most by chance."""
    shared = Shared(Alias("toy"), 2048)
    arms = Arms(clock, "g", "life", sticky=sticky_key, shared=lambda _: shared, is_alias=lambda _: True)
    call: Call = calls.call()
    error = StoreUnavailable()
    call = call if is_prepared else replace(call, prepared=None)
    arms.ended(call, Answer(outcome=error.outcome, usage=UNKNOWN, refusal=Refusal.of(error)))
    second = arms.take()
    assert second is not None
    assert [arm.bad for arm in second.arms] == ([] if is_prepared else [1])
