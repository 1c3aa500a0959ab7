"""Seats: the engine is never overbooked beyond what was stated."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenant import Priority
from penstock.worker.admission.cost import Fit, Work
from penstock.worker.admission.seats import EngineSize, Seats

SIZE = EngineSize(max_seqs=8, kv_blocks=100, block_size=16, watermark=0.0)


def work(
    name: str, tenant: str = "a", *, prompt: int = 16, output: int = 16, priority: Priority = Priority.INTERACTIVE
) -> Work:
    return Work(
        request=RequestId(name),
        tenant=TenantId(tenant),
        priority=priority,
        weight=1.0,
        prompt_tokens=prompt,
        expected_output_tokens=output,
    )


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 600), st.booleans()), max_size=60))
def test_what_was_let_in_fits(jobs: list[tuple[str, int, bool]]) -> None:
    """Requests that fit never hold more slots or blocks than there are, however they come and go."""
    seats, inside = Seats(SIZE), []
    for i, (tenant, prompt, leaves) in enumerate(jobs):
        item = work(f"r{i}", tenant, prompt=prompt)
        if seats.fits(item, (1.0, 0.5)[i % 2]) is Fit.YES:
            seats.take(item)
            inside.append(item)
        if leaves and inside:
            seats.leave(inside.pop(0).request)
        assert len(seats) == len(inside)
        assert seats.saturation <= 1.0
    for item in inside:
        seats.leave(item.request)
    assert seats.saturation == 0.0


def test_a_tenant_is_held_to_its_share() -> None:
    """With half the engine as its share a tenant gets half the seats, the other one the rest."""
    seats = Seats(SIZE)
    for i in range(4):
        seats.take(work(f"r{i}"))
    assert seats.fits(work("next"), 1.0) is Fit.YES
    assert seats.fits(work("next"), 0.5) is not Fit.YES
    assert seats.fits(work("other", "b"), 0.5) is Fit.YES


def test_an_answer_longer_than_expected_is_counted() -> None:
    """What a running request really holds counts, so that others wait instead of being preempted."""
    seats = Seats(SIZE)
    long = work("long")
    seats.take(long)
    seats.grow(long, 16 * 99)
    assert seats.fits(work("next"), 1.0) is not Fit.YES
    seats.leave(long.request)
    assert seats.saturation == 0.0


def test_a_giant_enters_an_empty_engine() -> None:
    """A request that books more than the share still runs when nothing else does."""
    assert Seats(SIZE).fits(work("giant", prompt=16 * 100, output=16), 0.5) is Fit.YES


def test_leaving_twice_is_harmless() -> None:
    """Every exit path may say goodbye."""
    seats = Seats(SIZE)
    seats.take(work("r"))
    seats.leave(RequestId("r"))
    seats.leave(RequestId("r"))
    assert len(seats) == 0


def test_seats_are_kept_for_better_classes() -> None:
    """Batch work never takes the last seats, so interactive work needn't wait for long answers to end."""
    seats = Seats(SIZE)
    for i in range(8):
        item = work(f"b{i}", f"t{i}", priority=Priority.BATCH)
        if seats.fits(item, 1.0) is Fit.YES:
            seats.take(item)
    assert len(seats) == 6
    assert seats.fits(work("now", "vip", priority=Priority.INTERACTIVE), 1.0) is Fit.YES


def test_prompts_enter_one_after_another() -> None:
    """So much foreign prefill at most stands before whoever comes next; a single prompt may be longer than that."""
    seats = Seats(EngineSize(max_seqs=8, kv_blocks=100, block_size=16, prefill_tokens=100))
    seats.take(work("long", "a", prompt=500))
    assert seats.fits(work("next", "b"), 1.0) is Fit.NO_ROOM
    seats.prefilled(RequestId("long"))
    assert seats.fits(work("next", "b"), 1.0) is Fit.YES
