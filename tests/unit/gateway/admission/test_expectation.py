"""The expected answer follows what the tenant's answers really were."""

import random

from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.ids import TenantId, VersionId
from penstock.domain.tenancy.cost import Cost
from penstock.gateway.admission.expectation import OutputExpectation

T, V = TenantId("t"), VersionId("m@1")


def wish(each: int, sequences: int = 1) -> Cost:
    return Cost(sequences=sequences, output_tokens=each * sequences, prompt_tokens=10, is_counted=True)


LARGE = wish(100_000)


@given(st.integers(1, 100_000), st.lists(st.integers(0, 50_000), max_size=50))
def test_it_never_exceeds_the_worst_case(worst_case: int, lengths: list[int]) -> None:
    """However long answers were, no more is reserved than the request may use."""
    expectation = OutputExpectation()
    for length in lengths:
        expectation.learn(T, V, wish(worst_case), length)
    assert 0 < expectation.tokens(T, V, wish(worst_case)) <= worst_case


def test_it_learns_the_quantile(chance: random.Random) -> None:
    """After some hundred answers about nine in ten fit into what is reserved, and not much more is reserved."""
    expectation, lengths = OutputExpectation(quantile=0.9), [chance.expovariate(1 / 100) for _ in range(2000)]
    for length in lengths:
        expectation.learn(T, V, LARGE, int(length))
    reserved = expectation.tokens(T, V, LARGE)
    covered = sum(length <= reserved for length in lengths) / len(lengths)
    assert 0.88 <= covered <= 0.98


def test_a_change_of_traffic_is_followed() -> None:
    """Old traffic fades within about a thousand answers."""
    expectation = OutputExpectation()
    for _ in range(2000):
        expectation.learn(T, V, LARGE, 4000)
    for _ in range(1500):
        expectation.learn(T, V, LARGE, 10)
    assert expectation.tokens(T, V, LARGE) < 100


def test_tenants_do_not_learn_from_one_another() -> None:
    """One tenant's long answers don't make another's reservations long."""
    expectation = OutputExpectation()
    for _ in range(500):
        expectation.learn(TenantId("long"), V, LARGE, 5000)
    assert expectation.tokens(T, V, LARGE) == 256


def test_memory_is_bounded() -> None:
    """Only so many pairs are remembered, the least recently used are forgotten."""
    expectation = OutputExpectation(most=10)
    for i in range(100):
        expectation.learn(TenantId(f"t{i}"), V, LARGE, 4000)
    assert expectation.tokens(TenantId("t0"), V, LARGE) == 256


def test_short_answers_to_small_wishes_make_no_large_wish_cheap() -> None:
    """Finding 5: 400 answers of one token don't let 500 tokens be reserved as one."""
    expectation = OutputExpectation()
    for _ in range(400):
        expectation.learn(T, V, wish(1), 1)
    assert expectation.tokens(T, V, wish(1)) == 1
    assert expectation.tokens(T, V, wish(500)) == 256


def test_each_sequence_counts() -> None:
    """Eight choices are expected to be eight times as long as one, however many taught it."""
    expectation = OutputExpectation()
    for number in range(200):
        sequences = 1 + number % 3
        expectation.learn(T, V, wish(1000, sequences), 40 * sequences)
    assert expectation.tokens(T, V, wish(1000, 8)) == 8 * expectation.tokens(T, V, wish(1000))
