"""What a ticket said too much of a prompt is given back as soon as the engine has read it (C11)."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.queueing.work import Work

SIZE = EngineSize(max_seqs=4, kv_blocks=400, block_size=16, watermark=0.0, prefill_tokens=10_000)
BOUND, TRUTH, OUTPUT = 2000, 120, 50


def work(prompt: int, sequences: int = 1) -> Work:
    return Work(
        request=RequestId("r"),
        tenant=TenantId("t"),
        standing=Standing.PAID,
        weight=1.0,
        prompt_tokens=prompt,
        expected_output_tokens=OUTPUT * sequences,
        sequences=sequences,
    )


def entered(asked: Work) -> AdmissionQueue:
    """Return a queue with this request inside."""
    queue = AdmissionQueue(SIZE, pace=1000.0)
    queue.arrive(asked, 0.0, lambda: None, lambda *_: None)
    assert len(queue.slots) == 1
    return queue


@given(st.integers(1, BOUND), st.integers(1, 3))
def test_a_counted_prompt_holds_what_it_needs(truth: int, sequences: int) -> None:
    """Whatever was believed, the slot holds the blocks of the truth, and is free of everything in the end."""
    queue = entered(work(BOUND, sequences))
    queue.counted(RequestId("r"), truth)
    assert queue.slots.held == queue.slots.need(work(truth, sequences))
    assert queue.slots.mean_cost == work(truth, sequences).cost
    queue.progressed(RequestId("r"), 3 * OUTPUT * sequences, 1.0)
    assert queue.slots.held.blocks == SIZE.blocks_of(work(truth, sequences), 3 * OUTPUT * sequences)
    queue.leave(RequestId("r"), 2.0)
    assert (queue.slots.held, queue.slots.mean_cost) == ((0, 0), 0.0)


def test_a_bound_does_not_make_the_engine_look_fast() -> None:
    """The measured pace is that of tokens which were read, not of those that a ticket feared."""
    feared, true = entered(work(BOUND)), entered(work(TRUTH))
    feared.counted(RequestId("r"), TRUTH)
    for queue in (feared, true):
        queue.progressed(RequestId("r"), 1, 1.0)
        queue.progressed(RequestId("r"), OUTPUT - 1, 3.0)
        queue.leave(RequestId("r"), 3.0)
    assert feared.forecast.pace.per_s == true.forecast.pace.per_s


def test_a_count_never_adds_and_comes_too_late_for_who_left() -> None:
    """A prompt that was counted right stays as booked; nobody is looked for who is gone."""
    queue = entered(work(TRUTH))
    held = queue.slots.held
    queue.counted(RequestId("r"), TRUTH + 9)
    assert queue.slots.held == held
    queue.counted(RequestId("gone"), 1)
