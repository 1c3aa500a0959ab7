"""The cost noun: upper bounds that what is learned only lowers."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.serving.request import Prepared
from penstock.domain.tenancy.cost import MOST_WORK_TOKENS, UNBOUNDED, Cost, most_sequences
from tests.support.samples import calls

CONTEXT = 2048


@st.composite
def costs(draw: st.DrawFn) -> Cost:
    """Return what an edge may have made of a body."""
    prompts, each = draw(st.integers(1, 2048)), draw(st.integers(1, 128))
    return Cost(
        prompts=prompts,
        sequences=prompts * each,
        output_tokens=draw(st.sampled_from([UNBOUNDED, prompts * each * draw(st.integers(1, 5000))])),
        body_bytes=draw(st.integers(0, 1 << 23)),
        scores_prompt=draw(st.booleans()),
    )


@given(costs(), st.integers(1, 1 << 20), st.integers(0, CONTEXT))
def test_what_is_learned_only_lowers_it(cost: Cost, context: int, prompt_each: int) -> None:
    """Neither context nor count makes a request dearer than its body alone said."""
    within = cost.within(context)
    counted = cost.with_prompt(prompt_each * cost.prompts, is_counted=True)
    for later in (within, counted, counted.within(context)):
        assert later.prompt_tokens <= cost.prompt_tokens
        assert 0 < later.output_tokens <= cost.output_tokens
        assert (later.prompts, later.sequences) == (cost.prompts, cost.sequences)


@given(
    prompts=st.lists(st.integers(1, CONTEXT - 1), min_size=1, max_size=20),
    each=st.integers(1, 16),
    wish=st.one_of(st.none(), st.integers(1, 4000)),
    is_counted=st.booleans(),
    slack=st.integers(0, 10_000),
)
def test_it_is_never_below_what_an_engine_may_do(
    prompts: list[int], each: int, wish: int | None, slack: int, *, is_counted: bool
) -> None:
    """Whatever prompts there are, counted or bounded: an engine that fills every context stays within the cost."""
    body = Cost(
        prompts=len(prompts),
        sequences=each * len(prompts),
        output_tokens=UNBOUNDED if wish is None else wish * each * len(prompts),
    )
    told = sum(prompts) if is_counted else sum(prompts) + slack
    cost = body.with_prompt(told, is_counted=is_counted).within(CONTEXT)
    done = [each * min(CONTEXT - prompt, CONTEXT if wish is None else wish) for prompt in prompts]
    assert cost.prompt_tokens >= sum(prompts)
    assert cost.output_tokens >= sum(done)
    assert cost.output_each >= max(done) // each or len(prompts) > 1


@given(costs(), st.sampled_from(["prompts", "sequences", "prompt_tokens", "output_tokens", "body_bytes"]))
def test_it_grows_with_each_factor(cost: Cost, factor: str) -> None:
    """More of anything is never less of tokens, slots or work."""
    small = replace(cost.with_prompt(1000 * cost.prompts, is_counted=True).within(1 << 20))
    large = replace(small, **{factor: 2 * getattr(small, factor)})
    assert (large.prompt_tokens, large.output_tokens, large.slots) >= (
        small.prompt_tokens,
        small.output_tokens,
        small.slots,
    )
    read = large.prompt_tokens + large.work_tokens
    assert read >= small.prompt_tokens + small.work_tokens
    assert replace(small, scores_prompt=True).work_tokens >= small.work_tokens


def test_bytes_that_are_no_prompt_are_work() -> None:
    """Finding 7: 5 MB of tools with a prompt of 31 tokens cost as much as they keep CPUs busy; text costs no more."""
    tools = Cost(prompt_tokens=31, is_counted=True, body_bytes=5_000_000)
    assert tools.work_tokens == MOST_WORK_TOKENS
    assert replace(tools, body_bytes=64 << 10).work_tokens == (64 << 10) // 8 - 31
    assert replace(tools, prompt_tokens=1500, body_bytes=1500 * 5).work_tokens == 0


def test_log_probabilities_of_a_prompt_are_work() -> None:
    """Finding 1: a prompt that is scored token by token costs several times its tokens."""
    plain = Cost(prompt_tokens=1800, is_counted=True, body_bytes=9000)
    assert replace(plain, scores_prompt=True).work_tokens == 4 * 1800
    assert plain.work_tokens == 0


@pytest.mark.parametrize(("prompts", "output", "slots"), [(1, 100, 8), (100, 0, 1)])
def test_sequences_are_requests_at_a_time_and_vectors_are_one(prompts: int, output: int, slots: int) -> None:
    """Choices decode beside one another; vectors are through in a step."""
    assert Cost(prompts=prompts, sequences=8 * prompts, output_tokens=output).slots == slots


@pytest.mark.parametrize(("has", "most"), [(1, 1), (2, 1), (32, 16), (256, 128)])
def test_one_request_may_have_half_of_an_engines_sequences(has: int, most: int) -> None:
    """And always one."""
    assert most_sequences(has) == most


def test_a_call_costs_what_is_known_of_it_now() -> None:
    """Each thing that is learned (model, prompt, plan) is in the cost from then on, however often it was asked for."""
    call = calls.arrived(cost=Cost(sequences=2))
    assert call.cost.names_no_output
    call = replace(call, version=calls.VERSION)
    assert (call.cost.prompt_tokens, call.cost.output_tokens) == (CONTEXT, 2 * CONTEXT)
    call = replace(call, prepared=Prepared(prompt_tokens=48))
    assert (call.cost.prompt_tokens, call.cost.output_tokens) == (48, 2 * (CONTEXT - 48))
    call = replace(call, request=replace(call.request, cost=call.request.cost.with_output(10)))
    assert call.cost.output_tokens == 20
    assert call.cost is call.cost
