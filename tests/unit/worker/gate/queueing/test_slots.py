"""Slots: the engine is never overbooked beyond what was stated."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.slots import EngineSize, Slots
from penstock.worker.gate.queueing.work import Fit, Work

SIZE = EngineSize(max_seqs=8, kv_blocks=100, block_size=16, watermark=0.0)


def work(
    name: str,
    tenant: str = "a",
    *,
    prompt: int = 16,
    output: int = 16,
    standing: Standing = Standing.INTERACTIVE,
) -> Work:
    return Work(
        request=RequestId(name),
        tenant=TenantId(tenant),
        standing=standing,
        weight=1.0,
        prompt_tokens=prompt,
        expected_output_tokens=output,
    )


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 600), st.booleans()), max_size=60))
def test_what_was_let_in_fits(jobs: list[tuple[str, int, bool]]) -> None:
    """Requests that fit never hold more slots or blocks than there are, however they come and go."""
    slots, inside = Slots(SIZE), []
    for i, (tenant, prompt, leaves) in enumerate(jobs):
        item = work(f"r{i}", tenant, prompt=prompt)
        if slots.room_for(item) is Fit.YES:
            slots.take(item)
            inside.append(item)
        if leaves and inside:
            slots.leave(inside.pop(0).request)
        assert len(slots) == len(inside)
        assert slots.saturation <= 1.0
    for item in inside:
        slots.leave(item.request)
    assert slots.saturation == 0.0


def test_an_answer_longer_than_expected_is_counted() -> None:
    """What a running request really holds counts, so that others wait instead of being preempted."""
    slots = Slots(SIZE)
    long = work("long")
    slots.take(long)
    slots.grow(long, 16 * 98)
    assert slots.room_for(work("next")) is Fit.NO_ROOM
    slots.leave(long.request)
    assert slots.saturation == 0.0


def test_a_giant_enters_an_empty_engine() -> None:
    """A request that books more than there is still runs when nothing else does."""
    assert Slots(SIZE).room_for(work("giant", prompt=16 * 100, output=16)) is Fit.YES


def test_a_request_holds_a_seat_for_each_of_its_sequences() -> None:
    """Finding 1: one request with many choices, or prompts, no longer takes an engine for the price of one slot."""
    slots = Slots(SIZE)
    slots.take(replace(work("n", "a"), sequences=5))
    assert slots.room_for(replace(work("too many", "b"), sequences=4)) is Fit.NO_ROOM
    assert slots.room_for(replace(work("three", "b"), sequences=3)) is Fit.YES
    assert slots.held_by(TenantId("a")).slots == 5
    slots.leave(RequestId("n"))
    assert slots.held == (0, 0)


def test_sequences_of_one_prompt_share_its_full_blocks() -> None:
    """Four choices of a prompt of two and a half blocks hold those two once; four prompts hold all of theirs."""
    slots = Slots(SIZE)
    assert slots.need(work("one", prompt=40, output=24)) == (1, 4)
    choices = replace(work("choices", prompt=40, output=4 * 24), sequences=4)
    prompts = replace(work("prompts", prompt=4 * 40, output=4 * 24), sequences=4, prompts=4)
    assert slots.need(choices) == (4, 2 + 4 * 2)
    assert slots.need(prompts) == (4, 4 * 4)
    slots.take(choices)
    slots.grow(choices, 4 * 40)
    assert slots.held == (4, 2 + 4 * 3)


def test_leaving_twice_is_harmless() -> None:
    """Every exit path may say goodbye."""
    slots = Slots(SIZE)
    slots.take(work("r"))
    slots.leave(RequestId("r"))
    slots.leave(RequestId("r"))
    assert len(slots) == 0


def test_prompts_enter_one_after_another() -> None:
    """So much foreign prefill at most stands before whoever comes next; a single prompt may be longer than that."""
    slots = Slots(EngineSize(max_seqs=8, kv_blocks=100, block_size=16, prefill_tokens=100))
    slots.take(work("long", "a", prompt=500))
    assert slots.room_for(work("next", "b")) is Fit.SOON
    slots.prefilled(RequestId("long"))
    assert slots.room_for(work("next", "b")) is Fit.YES


def test_a_first_prompt_joins_a_step_that_ends_soon() -> None:
    """Whoever has nothing inside waits for what is before its prompt, not for room behind it; others wait for both."""
    slots = Slots(EngineSize(max_seqs=8, kv_blocks=100, block_size=16, prefill_tokens=100))
    slots.take(work("small", "a", prompt=20))
    assert slots.room_for(work("next", "a", prompt=90)) is Fit.SOON
    assert slots.room_for(work("next", "b", prompt=90), prefill_part=0.25) is Fit.YES
    slots.take(work("first", "b", prompt=90))
    assert slots.room_for(work("next", "c", prompt=1)) is Fit.SOON


def test_a_newcomer_joins_the_step_of_a_long_prompt() -> None:
    """Finding 16: where one prompt takes a bounded part of a step, the next one needn't wait until it is through."""
    slots = Slots(EngineSize(max_seqs=8, kv_blocks=1000, block_size=16, prefill_tokens=512, long_prefill_tokens=256))
    slots.take(work("long", "a", prompt=1500))
    assert slots.room_for(work("short", "b", prompt=20), prefill_part=0.5) is Fit.YES
    assert slots.room_for(work("another", "a", prompt=1500), prefill_part=0.5) is Fit.SOON


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(Standing), st.booleans()), max_size=60))
def test_what_is_held_adds_up_by_tenant_and_by_standing(jobs: list[tuple[str, Standing, bool]]) -> None:
    """The sums that the rules read are those of the requests inside, whatever came, grew and went."""
    slots = Slots(EngineSize(max_seqs=100, kv_blocks=10_000, block_size=16))
    inside: list[tuple[Work, int]] = []
    for i, (tenant, standing, leaves) in enumerate(jobs):
        item = work(f"r{i}", tenant, standing=standing, output=i)
        slots.take(item)
        slots.grow(item, 32 * i)
        inside.append((item, 1 + 2 * i))
        if leaves:
            slots.leave(inside.pop(0)[0].request)
        for name in "abc":
            mine = [blocks for one, blocks in inside if one.tenant == name]
            assert slots.held_by(TenantId(name)) == (len(mine), sum(mine))
        for rung in Standing:
            lower = [blocks for one, blocks in inside if one.standing <= rung]
            assert slots.held_up_to(rung) == (len(lower), sum(lower))
    assert slots.mean_cost == pytest.approx(sum(w.cost for w, _ in inside) / max(1, len(inside)))
