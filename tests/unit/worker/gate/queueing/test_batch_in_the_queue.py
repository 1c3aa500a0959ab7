"""Batch requests in the queue: nearest deadline first, bounded beside others, standing still for interactive ones."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.serving.slo import TimedPromise
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.admission import AdmissionQueue, Shed
from penstock.worker.gate.queueing.constants import MOST_ANTICIPATION_S
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.queueing.work import Work

SIZE = EngineSize(max_seqs=20, kv_blocks=4000, block_size=16, watermark=0.0, prefill_tokens=10_000)
PART = 14
"""Of the slots, for batch work at most."""
PROMISE = TimedPromise(first_s=1.0, each_s=0.1, late_ratio=0.05)
BATCH = Work(
    request=RequestId("b"),
    tenant=TenantId("batch"),
    standing=Standing.BATCH,
    weight=1.0,
    prompt_tokens=100,
    expected_output_tokens=50,
    deadline_at=1000.0,
)
READER = replace(BATCH, request=RequestId("reader"), tenant=TenantId("reader"), standing=Standing.INTERACTIVE)


@dataclass
class Door:
    """A queue before an engine, the requests that entered, and the queue's timers."""

    queue: AdmissionQueue = field(default_factory=lambda: AdmissionQueue(SIZE, pace=1000.0))
    inside: list[str] = field(default_factory=list)
    shed: list[Shed] = field(default_factory=list)
    timers: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.queue.look_later = self.timers.append

    def arrive(self, work: Work, name: str = "", *, now: float = 0.0, **fields: Any) -> None:  # noqa: ANN401
        request = RequestId(name or work.request)
        self.queue.arrive(
            replace(work, request=request, **fields),
            now,
            lambda: self.inside.append(request),
            lambda why, _: self.shed.append(why),
        )

    def late_step(self, at: float) -> None:
        self.queue.stepped(PROMISE, 0.01, at - 0.2)
        self.queue.stepped(PROMISE, 0.2, at)

    @property
    def batch(self) -> int:
        return sum(name.startswith("b") for name in self.inside)


def test_the_nearest_deadline_goes_first_within_its_tenant() -> None:
    """Whatever the order of arrival; without a deadline it is last, and equal ones go as they came."""
    door = Door(AdmissionQueue(replace(SIZE, max_seqs=1)))
    door.arrive(BATCH, "b-runs")
    for name, deadline_at in (("far", 900.0), ("none", 0.0), ("near", 300.0), ("far too", 900.0)):
        door.arrive(BATCH, name, deadline_at=deadline_at)
    for last in ("b-runs", "near", "far", "far too"):
        door.queue.leave(RequestId(last), 1.0)
    assert door.inside == ["b-runs", "near", "far", "far too", "none"]


def test_other_classes_keep_their_order() -> None:
    """A deadline is no way to the front for a tenant's live requests."""
    door = Door(AdmissionQueue(replace(SIZE, max_seqs=1)))
    for name, deadline_at in (("runs", 900.0), ("first", 900.0), ("near", 300.0)):
        door.arrive(READER, name, deadline_at=deadline_at)
    door.queue.leave(RequestId("runs"), 1.0)
    assert door.inside == ["runs", "first"]


@pytest.mark.parametrize("deadline_at", [30.0, 900.0])
def test_a_near_deadline_does_not_raise_a_request_above_its_class(deadline_at: float) -> None:
    """Of two classes that were served for their weight the better one goes first, whatever the other's deadline."""
    door = Door(AdmissionQueue(replace(SIZE, max_seqs=1)))
    for name, work in (("runs", BATCH), ("b", replace(BATCH, deadline_at=deadline_at)), ("reader", READER)):
        door.arrive(work, name)
    door.queue.leave(RequestId("runs"), 1.0)
    assert door.inside == ["runs", "reader"]


def test_what_has_left_is_not_next() -> None:
    """The nearest one's client has gone."""
    door = Door(AdmissionQueue(replace(SIZE, max_seqs=1)))
    for name, deadline_at in (("b", 100.0), ("near", 100.0), ("far", 900.0)):
        door.arrive(BATCH, name, deadline_at=deadline_at)
    door.queue.leave(RequestId("near"), 1.0)
    door.queue.leave(RequestId("b"), 1.0)
    assert door.inside == ["b", "far"]


def test_a_request_waits_for_those_before_it_alone() -> None:
    """One with a near deadline is not refused for work that it overtakes."""
    door = Door(AdmissionQueue(replace(SIZE, max_seqs=1), pace=100.0))
    door.arrive(BATCH, "b")
    for number in range(20):
        door.arrive(BATCH, f"far-{number}", deadline_at=1000.0)
    assert door.queue.expected_wait_s(replace(BATCH, deadline_at=20.0), 0.0) == pytest.approx(2.0)
    assert door.queue.expected_wait_s(replace(BATCH, deadline_at=2000.0), 0.0) == pytest.approx(42.0)
    assert door.queue.expected_wait_s(replace(BATCH, deadline_at=0.0), 0.0) == pytest.approx(42.0)


def test_late_steps_leave_batch_work_fewer_slots() -> None:
    """It fills its part until they come, and what leaves is not replaced."""
    door = Door()
    door.arrive(READER)
    for number in range(20):
        door.arrive(BATCH, f"b{number}")
    assert door.batch == PART
    door.late_step(1.0)
    allowed = door.queue.yielding.slots(1.0)
    assert allowed is not None
    assert allowed < PART
    for number in range(PART - allowed + 1):
        door.queue.leave(RequestId(f"b{number}"), 2.0)
    assert door.batch == PART + 1
    assert door.queue.slots.held_up_to(Standing.BATCH).slots == allowed


def test_batch_work_enters_once_the_reader_has_not_come_back() -> None:
    """The queue has itself asked again at that second."""
    door = Door()
    door.arrive(READER)
    for number in range(20):
        door.arrive(BATCH, f"b{number}")
    door.queue.yielding.each.slots = 1.0
    for number in range(PART - 1):
        door.queue.leave(RequestId(f"b{number}"), 5.0)
    assert door.batch == PART
    door.queue.leave(RequestId("reader"), 10.0)
    assert door.batch == PART
    assert door.timers[-1] == pytest.approx(MOST_ANTICIPATION_S)
    door.queue.look(10.0 + MOST_ANTICIPATION_S)
    assert door.batch == 20


def strict(until: float = 500.0) -> Work:
    return replace(BATCH, stops_until=until)


def test_strict_work_does_not_enter_while_interactive_requests_are_about() -> None:
    """Not even an empty engine, as they usually return; other classes don't keep it out."""
    door = Door()
    door.arrive(READER, now=0.0, standing=Standing.PAID)
    door.arrive(strict(), "b-beside-paid")
    assert door.batch == 1
    door.arrive(READER, "interactive")
    door.arrive(strict(), "b-later")
    for name in ("reader", "interactive", "b-beside-paid"):
        door.queue.leave(RequestId(name), 10.0)
    assert door.inside[-1] == "interactive"
    assert min(door.timers) <= MOST_ANTICIPATION_S
    door.queue.look(10.0 + MOST_ANTICIPATION_S)
    assert door.inside[-1] == "b-later"


def test_strict_work_enters_in_the_second_half_of_its_time() -> None:
    """Like other batch work, and a tenant without the mark is not kept out at all."""
    door = Door()
    door.arrive(READER)
    door.arrive(strict(until=5.0), "b-strict")
    door.arrive(BATCH, "b-share", tenant=TenantId("other"))
    assert door.inside == ["reader", "b-share"]
    door.queue.look(5.0)
    assert door.inside[-1] == "b-strict"


def test_what_stands_still_teaches_nothing() -> None:
    """Neither the slots of others, nor how long a request stays."""
    door = Door()
    door.arrive(strict(), "b")
    door.arrive(READER)
    door.late_step(1.0)
    assert door.queue.yielding.slots(1.0) is None
    door.queue.leave(RequestId("b"), 400.0)
    assert door.queue.forecast.stay.of(BATCH.cost) == 0.0
    door.queue.leave(RequestId("reader"), 401.0)
    door.arrive(BATCH, "b-share", now=500.0)
    door.arrive(READER, now=500.0)
    door.late_step(501.0)
    assert door.queue.yielding.each.slots < PART


def test_batch_work_that_is_kept_back_does_not_make_the_engine_look_slow() -> None:
    """The pace by which others' waits are told is that of a full engine."""
    door = Door()
    door.arrive(READER)
    for number in range(20):
        door.arrive(BATCH, f"b{number}")
    door.late_step(1.0)
    door.queue.look(2.0)
    before = door.queue.forecast.pace.per_s
    for second in range(10, 60):
        door.queue.progressed(RequestId("reader"), 1, float(second))
    assert door.queue.forecast.pace.per_s == pytest.approx(before)
