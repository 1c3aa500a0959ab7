from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import Conflict
from penstock.domain.ids import KeyId, TenantId
from penstock.domain.jobs import batch as batches
from penstock.domain.jobs.batch import Batch, BatchState, Counts, LineFault, Tokens
from penstock.domain.jobs.ids import BatchId, FileId, ObjectId
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import Plan

NEW = Batch(
    id=BatchId("batch_1"),
    tenant=TenantId("acme"),
    key=KeyId("k1"),
    endpoint=Api.CHAT,
    input_file=FileId("file-1"),
    input_object=ObjectId("file/file-1"),
    window="24h",
    created_at=100.0,
    deadline_at=86_500.0,
    output_keep_s=3_600.0,
)
FAULT = LineFault(code="invalid_url", message="url must be the batch's endpoint", param="url", line=3)
FILES = (FileId("file-2"), FileId("file-3"))

ACTS: dict[str, Callable[[Batch, float], Batch]] = {
    "refuse": lambda one, now: batches.refused(one, [FAULT], now),
    "begin": lambda one, now: batches.begun(one, 2, {}, now),
    "end": lambda one, now: batches.lines_ended(one, now, is_late=False),
    "cancel": batches.cancelling,
    "close": lambda one, now: batches.closed(one, Counts(total=2), Tokens(), FILES, now),
    "pause": batches.paused,
    "resume": lambda one, _: batches.resumed(one),
}


def test_every_state_of_a_completed_batch_has_its_time() -> None:
    """A batch goes from validating to completed, and keeps when it entered each state."""
    one = batches.begun(NEW, 2, {}, 101.0)
    one = batches.closed(
        batches.lines_ended(one, 102.0, is_late=False), Counts(total=2, completed=2), Tokens(), FILES, 103.0
    )
    assert (one.state, one.counts.completed) == (BatchState.COMPLETED, 2)
    assert dict(one.times) == {BatchState.IN_PROGRESS: 101.0, BatchState.FINALIZING: 102.0, BatchState.COMPLETED: 103.0}


def test_cancel_is_idempotent_and_ends_in_its_own_state() -> None:
    """A second cancel changes nothing; the files come before ``cancelled``."""
    asked = batches.cancelling(batches.begun(NEW, 2, {}, 101.0), 102.0)
    assert batches.cancelling(asked, 110.0) is asked
    assert batches.closed(asked, Counts(total=2), Tokens(), FILES, 120.0).state is BatchState.CANCELLED


def test_the_deadline_ends_as_expired() -> None:
    """A batch with lines that the deadline ended is expired once its files are written."""
    one = batches.lines_ended(batches.begun(NEW, 2, {}, 101.0), 86_500.0, is_late=True)
    assert batches.closed(one, Counts(total=2), Tokens(), FILES, 86_501.0).state is BatchState.EXPIRED


def test_windows() -> None:
    """A plan offers 24 hours and its own windows; anything else is no window."""
    assert batches.windows(Plan()) == ("24h",)
    assert [*map(batches.window_s, batches.windows(Plan(batch_windows="30m,90s")))] == [86_400.0, 1_800.0, 90.0]
    for wrong in ("", "a day", "0h", "1d", "-1h", "1.5h"):
        with pytest.raises(ValueError, match="as 24h"):
            batches.window_s(wrong)


def test_pausing_keeps_the_deadline() -> None:
    """A pause is noted once, and moves no deadline."""
    one = batches.paused(batches.begun(NEW, 2, {}, 101.0), 102.0)
    assert batches.paused(one, 105.0).paused_at == 102.0
    assert batches.resumed(one).deadline_at == NEW.deadline_at


@pytest.mark.parametrize("act", ACTS)
def test_nothing_changes_a_batch_that_is_over(act: str) -> None:
    """A batch that is over stays as it is; the refusal names its state."""
    over = batches.refused(NEW, [FAULT], 101.0)
    with pytest.raises(Conflict, match="the batch is failed"):
        ACTS[act](over, 102.0)


@given(st.lists(st.sampled_from(sorted(ACTS)), max_size=12))
def test_times_never_run_backwards(acts: list[str]) -> None:
    """Whatever is tried in which order: one end at most, and times in the order of the states entered."""
    one, now = NEW, NEW.created_at
    for act in acts:
        now += 1
        try:
            one = ACTS[act](one, now)
        except Conflict:
            continue
    assert list(one.times.values()) == sorted(one.times.values())
    assert sum(state.is_over for state in one.times) == one.state.is_over
    assert one.times.get(one.state, 0.0) == (0.0 if one.state is BatchState.VALIDATING else one.at(one.state))
