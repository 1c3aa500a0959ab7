"""What a request is billed for, by who knows best."""

from dataclasses import replace
from typing import Any

import pytest

from penstock.domain.outcome import Outcome
from penstock.domain.serving.report import Used
from penstock.domain.serving.request import Prepared
from penstock.domain.tokens import UNKNOWN, Usage
from penstock.gateway.billing import bill
from penstock.gateway.calls.call import Admitted, Answer
from tests.support.samples import calls

USED = Used(prompt_tokens=30, cached_tokens=16, output_tokens=400, sequences=8, prompts=1)


def call(**changes: Any) -> Admitted:  # noqa: ANN401  any field
    """Return a call of a prompt of 30 tokens."""
    return replace(calls.call(**changes), prepared=Prepared(prompt_tokens=30))


def left(usage: Usage = UNKNOWN, outcome: Outcome = Outcome.CANCELLED) -> Answer:
    """Return an answer that did not come to its end."""
    return Answer(outcome=outcome, usage=usage)


def test_the_gates_count_is_the_bill() -> None:
    """What was counted beside the engine is exact, whatever else is known."""
    assert bill.counted(call(), USED) == Usage(prompt_tokens=30, output_tokens=400, cached_tokens=16)


def test_a_count_that_was_not_the_last_says_so() -> None:
    """A request that its engine would not end in time is billed so far, and not as exact."""
    assert not bill.counted(call(), replace(USED, is_final=False)).exact


def test_the_rest_of_a_broken_stream_does_not_pay_its_beginning_twice() -> None:
    """The tokens that another worker had made were prompt to this one: they are output, once."""
    resumed = call()
    resumed.attempts.kept_tokens = 12
    used = Used(prompt_tokens=30 + 12, cached_tokens=40, output_tokens=5, sequences=1, prompts=1)
    assert bill.counted(resumed, used) == Usage(prompt_tokens=30, output_tokens=17, cached_tokens=30)


@pytest.mark.parametrize(
    ("known", "delivered", "prompt", "output"),
    [
        (UNKNOWN, 0, 30, 0),
        (UNKNOWN, 70, 30, 70),
        (Usage(prompt_tokens=35, output_tokens=3, exact=False), 2, 35, 3),
    ],
    ids=["nothing was heard", "a worker had told before", "it was a stream"],
)
def test_a_worker_that_is_gone_makes_nothing_free(known: Usage, delivered: int, prompt: int, output: int) -> None:
    """Finding 4: who leaves pays the prompt and the most that is known of the output, as a guess."""
    gone = call()
    gone.lease.delivered = delivered
    usage = bill.guessed(gone, left(known))
    assert usage == Usage(prompt_tokens=prompt, output_tokens=output, exact=False)


@pytest.mark.parametrize("usage", [UNKNOWN, Usage(prompt_tokens=30, output_tokens=400)])
def test_our_own_failure_before_the_first_byte_costs_nothing(usage: Usage) -> None:
    """A caller does not pay for a worker that failed or was lost before it answered, whoever counted what it did."""
    failed = left(outcome=Outcome.ENGINE_ERROR)
    assert bill.due(failed, usage) == Usage(exact=usage.exact)
    assert bill.due(replace(failed, ttft_s=0.1), usage) == usage
    assert bill.due(left(), usage) == usage


def test_another_account_than_the_gates_is_noticed() -> None:
    """The engine's usage is checked against the count, both ways and for prompt and output."""
    same = Usage(prompt_tokens=30, output_tokens=400)
    assert not bill.differs(call(), same, USED)
    assert bill.differs(call(), replace(same, output_tokens=399), USED)
    assert bill.differs(call(), replace(same, prompt_tokens=31), USED)


def test_a_beam_search_tells_less_than_it_ran() -> None:
    """Its usage is that of the beams that were kept: no alarm."""
    searched = call(body={"use_beam_search": True})
    assert not bill.differs(searched, Usage(prompt_tokens=30, output_tokens=40), USED)
