"""A plan's lines add up to the GPU, its settings hold their bounds, and what does not fit names what would."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.capacity.gpus import GPUS, gpu
from penstock.capacity.memory_plan import USED_RATIO, Lengths, MemoryPlan, Target, plan, stored_bytes
from penstock.capacity.nearest import fitting, precisions, slices
from penstock.domain.errors import ArtifactRefused
from penstock.packaging.architecture import architecture_of
from penstock.packaging.known_models import MODELS

TARGET = Target(context_tokens=8192, lengths=Lengths(pairs=((1155, 211),)), itl_s=0.05)


def planned(model: str, on: str, target: Target = TARGET) -> MemoryPlan:
    """Return the plan of a known model."""
    shape = architecture_of(MODELS[model])
    return plan(shape, stored_bytes(shape), gpu(on), target)


@pytest.mark.parametrize("on", GPUS)
@pytest.mark.parametrize("model", ["SmolLM2-135M", "Llama-3.1-8B", "Gemma-3-4B", "gpt-oss-20b"])
def test_lines_and_cache_fill_the_part_that_the_engine_uses(model: str, on: str) -> None:
    """No byte is planned twice, and none is left out."""
    found = planned(model, on)
    used = sum(line.size_bytes for line in found.lines) + found.kv_bytes
    assert used == int(GPUS[on].memory_bytes * USED_RATIO) or not found.kv_bytes


@pytest.mark.parametrize(
    ("model", "on", "tensor_parallel", "tokens"),
    [
        # KV tokens by the data-sheet formula, section "Real GPUs" of the sizing sheet; A10G and L4 leave least room.
        ("Llama-3.1-8B", "A10G", 1, 29_000),
        ("Llama-3.1-8B", "L40S", 1, 193_000),
        ("Llama-3.1-8B", "A100-80", 1, 449_000),
        ("Llama-3.1-8B", "H100", 1, 449_000),
        ("Llama-3.1-70B", "H100", 4, 483_000),
        ("Llama-3.1-70B", "A100-80", 4, 483_000),
    ],
)
def test_tokens_are_near_the_sizing_sheet(model: str, on: str, tensor_parallel: int, tokens: int) -> None:
    """Within 6 %: the sheet takes round gigabytes and other reserves."""
    found = planned(model, on, replace(TARGET, tensor_parallel=tensor_parallel))
    assert found.cache.told_tokens(found.kv_bytes) == pytest.approx(tokens, rel=0.06)


@pytest.mark.parametrize(
    ("model", "on", "tensor_parallel", "batch", "published_ms"),
    [
        ("Llama-3.1-8B", "H100", 1, 1, 6.48),  # vLLM 0.21, InferenceBench, 2026-05
        ("Llama-3.1-8B", "A100-80", 1, 1, 11.0),  # vLLM 0.23 on the 40 GB card: 13.3 at 1.555 TB/s
        ("Llama-3.1-70B", "H100", 4, 8, 17.1),  # BLIS's ground truth, ITL
    ],
)
def test_steps_are_near_published_runs(
    model: str, on: str, tensor_parallel: int, batch: int, published_ms: float
) -> None:
    """A decode step by the data sheet is within 15 % of other people's measurement."""
    found = planned(model, on, replace(TARGET, tensor_parallel=tensor_parallel))
    step_ms = found.steps.seconds(decoding=batch, context=batch * 500) * 1e3
    assert step_ms == pytest.approx(published_ms, rel=0.15)


def test_what_does_not_fit_says_how_much_is_missing_and_what_would() -> None:
    """70 B on one H100 lacks 65 GiB; two GPUs have them."""
    shape = architecture_of(MODELS["Llama-3.1-70B"])
    found = planned("Llama-3.1-70B", "H100")
    assert not found.fits
    ways = fitting(shape, stored_bytes(shape), gpu("H100"), TARGET)
    assert [way.told for way in ways][:1] == ["over 2 GPUs"]
    assert all(way.plan.fits for way in ways)
    on_one = plan(shape, stored_bytes(shape), replace(gpu("H100"), memory_bytes=200 << 30), TARGET)
    assert on_one.fits


def test_what_fits_no_node_has_no_way() -> None:
    """405 B in 16 bits is more than eight L4 hold in any precision."""
    shape = architecture_of(MODELS["Llama-3.1-405B"])
    ways = fitting(shape, stored_bytes(shape), gpu("L4"), TARGET)
    assert ways == ()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"tensor_parallel": 16}, "a worker stays on one node"),
        ({"tensor_parallel": 4, "pipeline_parallel": 4}, "a worker stays on one node"),
        ({"tensor_parallel": 3}, "32 heads do not divide over 3 GPUs"),
        ({"pipeline_parallel": 16}, "a worker stays on one node"),
        ({"block_tokens": 7}, "--block: 7 is not within multiples of 16"),
        ({"adapter_slots": 8, "adapter_rank": 513}, "--adapters: 513"),
        ({"lengths": Lengths(pairs=((8000, 193),))}, "--context: prompt and output"),
        ({"lengths": Lengths(pairs=((8000, 0),))}, "--output: 0"),
        ({"context_tokens": 1 << 20}, "beyond the model's 131,072 tokens"),
    ],
)
def test_an_impossible_wish_is_refused(changed: dict[str, Any], says: str) -> None:
    """Nothing is planned that no engine would start."""
    with pytest.raises(ArtifactRefused, match=says):
        planned("Llama-3.1-8B", "H100", replace(TARGET, **changed))


@pytest.mark.parametrize(
    ("name", "says"), [("B300", "known: T4"), ("H100/9g.1gb", "it has: 1g.10gb"), ("L4/1g", "none")]
)
def test_an_unknown_gpu_is_refused_with_those_known(name: str, says: str) -> None:
    """So is a slice that its MIG does not cut."""
    with pytest.raises(ArtifactRefused, match=says):
        gpu(name)


def test_precisions_stand_side_by_side() -> None:
    """Half the bits of the cache hold twice the tokens."""
    shape = architecture_of(MODELS["Llama-3.1-8B"])
    told = {way.told: way.plan for way in precisions(shape, stored_bytes(shape), gpu("L40S"), TARGET)}
    plain, small = told["weights as stored, KV bfloat16"], told["weights as stored, KV fp8"]
    assert small.at_longest == pytest.approx(2 * plain.at_longest, rel=0.01)
    assert told["weights fp8, KV fp8"].at_longest > small.at_longest


def test_a_slice_has_its_own_memory_and_arithmetic() -> None:
    """A small model fits every slice, at its part of the speed."""
    shape = architecture_of(MODELS["Qwen2.5-1.5B"])
    whole = plan(shape, stored_bytes(shape), gpu("H100"), TARGET)
    for way in slices(shape, stored_bytes(shape), gpu("H100"), TARGET):
        assert way.plan.fits
        assert way.plan.steps.fixed_s > whole.steps.fixed_s


@given(
    prompt=st.integers(1, 8000),
    output=st.integers(1, 192),
    itl_ms=st.floats(1, 500),
    on=st.sampled_from(sorted(GPUS)),
    model=st.sampled_from(["SmolLM2-135M", "Llama-3.1-8B", "Gemma-3-4B", "Mixtral-8x7B"]),
)
def test_settings_stay_within_memory_and_objective(
    prompt: int, output: int, itl_ms: float, on: str, model: str
) -> None:
    """Whatever the lengths: the batch fits the cache, its step the objective and its tokens, unless it is one."""
    target = replace(TARGET, lengths=Lengths(pairs=((prompt, output),)), itl_s=itl_ms / 1e3)
    found = planned(model, on, target)
    if not found.fits:
        return
    held = target.lengths.held()[0]
    assert found.max_num_seqs == 1 or found.max_num_seqs * found.cache.blocks(held) <= found.cache.pool_blocks(
        found.kv_bytes
    )
    batch, brought = found.max_num_seqs, round(found.max_num_seqs * prompt / output)
    step_s = found.steps.seconds(decoding=batch, prompt=brought, context=batch * held)
    assert batch == 1 or step_s <= target.itl_s
    assert batch == 1 or batch + brought <= found.max_num_batched_tokens + 1


def test_varied_lengths_leave_room_for_their_spread() -> None:
    """Of requests with the same mean, those that vary hold fewer at a time: 99 of 100 moments must fit."""
    even = planned("Llama-3.1-8B", "H100", replace(TARGET, lengths=Lengths(pairs=((1000, 1),))))
    varied = planned("Llama-3.1-8B", "H100", replace(TARGET, lengths=Lengths(pairs=((16, 1), (1984, 1)))))
    assert varied.at_lengths < even.at_lengths


def test_a_slice_is_never_one_of_several() -> None:
    """Neither tensor nor pipeline parallelism spreads a worker over MIG slices."""
    for changed in ({"tensor_parallel": 2}, {"pipeline_parallel": 2}):
        with pytest.raises(ArtifactRefused, match="a worker has one MIG slice"):
            planned("SmolLM2-135M", "H100/3g.40gb", replace(TARGET, **changed))  # type: ignore[arg-type]


def test_kv_heads_are_spread_as_vllm_spreads_them() -> None:
    """Its models assert that KV heads divide over the GPUs, or GPUs over the KV heads."""
    shape = architecture_of(
        {**MODELS["Llama-3.1-8B"], "num_attention_heads": 48, "num_key_value_heads": 12, "head_dim": 64}
    )
    for parts, fits in ((2, True), (4, True), (8, False)):
        target = replace(TARGET, tensor_parallel=parts)
        if fits:
            assert plan(shape, stored_bytes(shape), gpu("H100"), target).fits
            continue
        with pytest.raises(ArtifactRefused, match="--tp: 12 KV heads"):
            plan(shape, stored_bytes(shape), gpu("H100"), target)


def test_a_step_shrinks_before_a_model_is_said_not_to_fit() -> None:
    """The tokens of a step are ours to choose: of two slices with equal memory, the faster one fits as well."""
    plans = [planned("Llama-3.1-8B", f"H100/{profile}") for profile in ("1g.20gb", "2g.20gb")]
    assert [one.fits for one in plans] == [True, True]


def test_adapters_take_slots_of_a_rank_that_vllm_has() -> None:
    """Rank 7 takes the slot of rank 8."""
    sizes = [
        [
            line.size_bytes
            for line in planned("Llama-3.1-8B", "H100", replace(TARGET, adapter_slots=8, adapter_rank=rank)).lines
        ]
        for rank in (7, 8, 9)
    ]
    assert sizes[0] == sizes[1] != sizes[2]
