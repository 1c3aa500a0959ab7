"""Requests that are too large for one engine are told so before they hold anything."""

from dataclasses import replace

import pytest

from penstock.domain.errors import ExceedsEngine
from penstock.domain.tenancy.cost import Cost
from penstock.gateway.admission.controller import check_sequences as check
from tests.support.samples.calls import VERSION

ENGINE = replace(VERSION, max_num_seqs=32)


@pytest.mark.parametrize(
    "cost",
    [
        Cost(sequences=16, output_tokens=1600),
        Cost(prompts=16, sequences=16, output_tokens=1600),
        Cost(prompts=2048, sequences=2048, output_tokens=0),
    ],
)
def test_half_of_an_engine_and_any_number_of_vectors_pass(cost: Cost) -> None:
    """Usual numbers of choices and prompts, and OpenAI's largest list of inputs, meet no bound."""
    check(cost, ENGINE)


@pytest.mark.parametrize(
    ("cost", "param"),
    [
        (Cost(sequences=128, output_tokens=128 * 64), "n"),
        (Cost(prompts=60, sequences=60, output_tokens=60 * 64), "prompt"),
        (Cost(prompts=4, sequences=20, output_tokens=20), "n"),
    ],
)
def test_more_sequences_than_one_request_may_have_are_refused_in_plain_words(cost: Cost, param: str) -> None:
    """Finding 1: n=128 or sixty prompts don't take the whole engine; the refusal says how many may."""
    with pytest.raises(ExceedsEngine, match=f"{cost.sequences} sequences at once.*at most 16") as caught:
        check(cost, ENGINE)
    assert caught.value.param == param


def test_a_table_that_does_not_say_leaves_it_to_the_gate() -> None:
    """A last good table from before knows no number of sequences; the gate does."""
    check(Cost(sequences=128), VERSION)
