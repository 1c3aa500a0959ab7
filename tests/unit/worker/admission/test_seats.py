"""Seats: the engine is never overbooked beyond what was stated."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenant import Priority
from penstock.worker.admission.cost import Work
from penstock.worker.admission.seats import EngineSize, Seats

SIZE = EngineSize(max_seqs=8, kv_blocks=100, block_size=16, tenant_share=0.5, watermark=0.0)


def work(name: str, tenant: str = "a", *, prompt: int = 16, output: int = 16) -> Work:
    return Work(
        request=RequestId(name),
        tenant=TenantId(tenant),
        priority=Priority.STANDARD,
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
        if seats.fits(item, contended=i % 2 == 0):
            seats.take(item)
            inside.append(item)
        if leaves and inside:
            seats.leave(inside.pop(0).request)
        assert len(seats) == len(inside)
        assert seats.saturation <= 1.0
    for item in inside:
        seats.leave(item.request)
    assert seats.saturation == 0.0


def test_one_tenant_takes_all_only_while_nobody_else_waits() -> None:
    """Alone a tenant may fill the engine; beside another one, only its share."""
    seats = Seats(SIZE)
    for i in range(4):
        seats.take(work(f"r{i}"))
    assert seats.fits(work("next"), contended=False)
    assert not seats.fits(work("next"), contended=True)
    assert seats.fits(work("other", "b"), contended=True)


def test_an_answer_longer_than_expected_is_counted() -> None:
    """What a running request really holds counts, so that others wait instead of being preempted."""
    seats = Seats(SIZE)
    long = work("long")
    seats.take(long)
    seats.grow(long, 16 * 99)
    assert not seats.fits(work("next"), contended=False)
    seats.leave(long.request)
    assert seats.saturation == 0.0


def test_a_giant_enters_an_empty_engine() -> None:
    """A request that books more than the share still runs when nothing else does."""
    assert Seats(SIZE).fits(work("giant", prompt=16 * 100, output=16), contended=True)


def test_leaving_twice_is_harmless() -> None:
    """Every exit path may say goodbye."""
    seats = Seats(SIZE)
    seats.take(work("r"))
    seats.leave(RequestId("r"))
    seats.leave(RequestId("r"))
    assert len(seats) == 0
