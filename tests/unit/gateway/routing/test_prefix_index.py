import gc
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.ids import WorkerId
from penstock.gateway.routing.prefix_index import MAX_HOLDERS, PrefixIndex

A, B = WorkerId("a"), WorkerId("b")


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 50), max_size=12), st.integers(0, 9)), max_size=60), st.integers(1, 20)
)
def test_bound_holds_whatever_comes(records: list[tuple[list[int], int]], most: int) -> None:
    """It never holds more blocks than its bound, nor more holders of one than their bound."""
    index = PrefixIndex(most)
    for blocks, worker in records:
        index.record(blocks, WorkerId(f"w{worker}"))
        assert len(index) <= most
    workers = [WorkerId(f"w{n}") for n in range(10)]
    for block in range(51):
        assert len(index.matches([block], workers)) <= MAX_HOLDERS


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=20, unique=True), st.integers(0, 20))
def test_counts_leading_blocks(blocks: list[int], kept: int) -> None:
    """A worker's match is as long as the prefix it holds without a gap."""
    index = PrefixIndex()
    index.record(blocks[:kept], A)
    index.record(blocks[kept + 1 :], A)
    expected = len(blocks[:kept])
    assert index.matches(blocks, [A, B]) == ({A: expected} if expected else {})


def test_holders_are_told_apart() -> None:
    """Each worker's match is its own; workers not asked about are left out."""
    index = PrefixIndex()
    index.record([1, 2, 3], A)
    index.record([1, 2], B)
    assert index.matches([1, 2, 3, 4], [A, B]) == {A: 3, B: 2}
    assert index.matches([1, 2, 3], [B]) == {B: 2}


def test_a_beginning_that_all_share_hides_no_holder() -> None:
    """Many others came by the shared first block since: the worker that holds the whole prompt is still found."""
    index = PrefixIndex()
    index.record([1, 2, 3], A)
    for n in range(2 * MAX_HOLDERS):
        index.record([1, 10 + n], WorkerId(f"w{n}"))
    assert index.matches([1, 2, 3, 4], [A]) == {A: 3}


def test_least_recently_used_go_first() -> None:
    """What was used lately stays."""
    index = PrefixIndex(3)
    index.record([1, 2, 3], A)
    index.record([1], A)
    index.record([4], A)
    assert [bool(index.matches([block], [A])) for block in (1, 2, 3, 4)] == [True, False, True, True]


def test_memory_bound_is_true() -> None:
    """A full index costs no more than it says, four holders a block included."""
    blocks = 20_000
    gc.collect()
    tracemalloc.start()
    index = PrefixIndex(blocks)
    workers = [WorkerId(f"worker-{n:030}") for n in range(MAX_HOLDERS)]
    for worker in workers:
        for start in range(0, blocks * 2, 64):
            index.record([(1 << 60) + start + n for n in range(64)], worker)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(index) == blocks
    assert used < blocks * 320
