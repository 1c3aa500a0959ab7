"""Receipts of deletions: the loop that signs them outlives whatever one step raises."""

import asyncio

import pytest
from structlog.testing import capture_logs

from penstock.control import receipts
from penstock.control.receipts import Receipts
from penstock.domain.errors import StoreUnavailable
from penstock.domain.jobs.deletion import Deletion
from tests.support.clock import ManualClock


class Failing:
    """A store that fails twice, then has nothing to sign."""

    def __init__(self) -> None:
        self.errors: list[Exception] = [RuntimeError("a bug"), StoreUnavailable()]
        self.is_asked = asyncio.Event()

    async def unsigned(self, most: int) -> tuple[Deletion, ...]:
        if self.errors:
            raise self.errors.pop(0)
        self.is_asked.set()
        return ()


async def test_a_bug_and_an_outage_are_logged_and_tried_again(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither ends the controller."""
    monkeypatch.setattr(receipts, "AGAIN_S", 0.0)
    store = Failing()
    made = Receipts(store=store, signer=lambda: None, clock=clock, region="eu", acts=lambda: True)  # type: ignore[arg-type,return-value]
    with capture_logs() as logged:
        task = asyncio.create_task(made.run())
        await asyncio.wait_for(store.is_asked.wait(), 10)
        task.cancel()
    assert [(one["event"], one["log_level"]) for one in logged] == [
        ("receipt_not_signed", "error"),
        ("receipt_not_signed", "warning"),
    ]
