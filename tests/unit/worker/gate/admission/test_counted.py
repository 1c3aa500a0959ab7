"""What a ticket said too much of a prompt is given back as soon as the engine has read it (C11)."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.admission import doors
from penstock.worker.gate.admission.cost import Work
from penstock.worker.gate.admission.door import Door
from penstock.worker.gate.admission.seats import EngineSize
from penstock.worker.gate_config import DoorOrder

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


def entered(asked: Work) -> Door:
    """Return a door with this request inside."""
    door = doors.make(DoorOrder.FAIR, SIZE, pace=1000.0)
    door.arrive(asked, 0.0, lambda: None, lambda *_: None)
    assert len(door.seats) == 1
    return door


@given(st.integers(1, BOUND), st.integers(1, 3))
def test_a_counted_prompt_holds_what_it_needs(truth: int, sequences: int) -> None:
    """Whatever was believed, the seat holds the blocks of the truth, and is free of everything in the end."""
    door = entered(work(BOUND, sequences))
    door.counted(RequestId("r"), truth)
    assert door.seats.held == door.seats.need(work(truth, sequences))
    assert door.seats.mean_cost == work(truth, sequences).cost
    door.progressed(RequestId("r"), 3 * OUTPUT * sequences, 1.0)
    assert door.seats.held.blocks == SIZE.blocks_of(work(truth, sequences), 3 * OUTPUT * sequences)
    door.leave(RequestId("r"), 2.0)
    assert (door.seats.held, door.seats.mean_cost) == ((0, 0), 0.0)


def test_a_bound_does_not_make_the_engine_look_fast() -> None:
    """The measured pace is that of tokens which were read, not of those that a ticket feared."""
    feared, true = entered(work(BOUND)), entered(work(TRUTH))
    feared.counted(RequestId("r"), TRUTH)
    for door in (feared, true):
        door.progressed(RequestId("r"), 1, 1.0)
        door.progressed(RequestId("r"), OUTPUT - 1, 3.0)
        door.leave(RequestId("r"), 3.0)
    assert feared.pace.per_s == true.pace.per_s


def test_a_count_never_adds_and_comes_too_late_for_who_left() -> None:
    """A prompt that was counted right stays as booked; nobody is looked for who is gone."""
    door = entered(work(TRUTH))
    held = door.seats.held
    door.counted(RequestId("r"), TRUTH + 9)
    assert door.seats.held == held
    door.counted(RequestId("gone"), 1)
