"""What a caller over its quota hears where there was no spare capacity for it."""

import pytest

from penstock.domain.errors import Draining, EngineError, Evicted, OverLimit, Overloaded, PenstockError
from penstock.gateway.calls.lease import Lease
from penstock.gateway.pipeline import _as_told


@pytest.mark.parametrize("error", [Overloaded(retry_after_s=2.0), Evicted(), Draining()])
def test_who_found_no_spare_capacity_hears_of_its_own_limit(error: PenstockError) -> None:
    """The platform is not out of capacity for it: its limit is reached, and it hears when it has some again."""
    lease = Lease(opened_at=0.0, deadline_at=9.0)
    assert _as_told(error, lease) is error
    lease.over_quota = OverLimit("the tenant's limit is reached", retry_after_s=30.0)
    assert _as_told(error, lease) is lease.over_quota


def test_what_failed_while_it_ran_stays_what_it_was() -> None:
    """An error that may have come after a start is told as it is."""
    lease = Lease(opened_at=0.0, deadline_at=9.0)
    lease.over_quota = OverLimit()
    error = EngineError()
    assert _as_told(error, lease) is error
