"""The sheet from a peak to machines: published rows, each factor once, and no plan for an impossible traffic."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.capacity.capacity_plan import CapacityPlan, PeakDemand, plan
from penstock.capacity.gpus import gpu
from penstock.capacity.memory_plan import Lengths, Target, stored_bytes
from penstock.capacity.memory_plan import plan as plan_memory
from penstock.domain.errors import ArtifactRefused
from penstock.packaging.architecture import architecture_of
from penstock.packaging.known_models import MODELS

DEMAND = PeakDemand(requests_per_s=100, ttft_s=1.0, target_load=1.0, zones=1)
TARGET = Target(context_tokens=8192, lengths=Lengths(pairs=((1155, 211),)), itl_s=0.05)
"""Mean lengths of the Azure trace of 2023 (conversation)."""


def planned(
    model: str = "Llama-3.1-8B",
    on: str = "H100",
    *,
    tensor_parallel: int = 1,
    price: float = 0.0,
    lengths: tuple[int, int] = (1155, 211),
    **changed: Any,  # noqa: ANN401  fields of the demand
) -> CapacityPlan:
    """Return the plan of a known model under a changed demand."""
    shape = architecture_of(MODELS[model])
    target = replace(TARGET, tensor_parallel=tensor_parallel, lengths=Lengths(pairs=(lengths,)))
    memory = plan_memory(shape, stored_bytes(shape), gpu(on), target)
    return plan(replace(DEMAND, **changed), memory, price)


@pytest.mark.parametrize(
    ("model", "on", "tensor_parallel", "batch", "per_s"),
    [
        ("Llama-3.1-8B", "A10G", 1, 16, 1.6),
        ("Llama-3.1-8B", "L40S", 1, 50, 4.7),
        ("Llama-3.1-8B", "A100-80", 1, 73, 7.0),
        ("Llama-3.1-8B", "H100", 1, 191, 18.1),
        ("Llama-3.1-70B", "A100-80", 4, 35, 3.4),
        ("Llama-3.1-70B", "H100", 4, 106, 10.1),
        ("Llama-3.1-70B", "H100", 8, 207, 19.7),
    ],
)
def test_replicas_carry_what_the_sizing_sheet_says(
    model: str, on: str, tensor_parallel: int, batch: int, per_s: float
) -> None:
    """Batch and requests a second at steps of 50 ms: within 10 % of another calculation by the same data sheets."""
    found = planned(model, on, tensor_parallel=tensor_parallel)
    told = {one.name: one.value for one in found.figures}
    assert told["batch"] == min(told["batch by KV"], told["batch by ITL"]) == pytest.approx(batch, rel=0.10)
    assert found.replica_per_s == pytest.approx(per_s, rel=0.10)


def test_a_gpu_that_never_keeps_the_objective_is_refused() -> None:
    """An L4 reads 16 GB of weights in more than 50 ms."""
    with pytest.raises(
        ArtifactRefused, match=r"--itl-ms: no engine step that also reads prompts is within 50 ms.*allow at least 68 ms"
    ):
        planned(on="L4")


def test_a_long_context_is_bound_by_memory() -> None:
    """KV binds before the ITL objective if sequences are long and steps may be slow."""
    assert planned().binding == "the ITL objective"
    assert planned(lengths=(7000, 1000)).binding == "KV memory"


@pytest.mark.parametrize("zones", [2, 3, 4])
def test_the_fleet_without_its_fullest_zone_carries_the_peak(zones: int) -> None:
    """Whichever zone is lost, the rest is at most at the target load."""
    found = planned(zones=zones, target_load=0.8)
    left = found.replicas - found.replicas // zones
    assert found.replicas % zones == 0
    assert left * found.replica_per_s * 0.8 >= DEMAND.requests_per_s


def test_each_factor_counts_once() -> None:
    """Target load, zones and the other region multiply; none is in another one."""
    bare = planned(requests_per_s=1000)
    needed = {one.name: one.value for one in bare.figures}["needed"]
    loaded = planned(requests_per_s=500, other_region_per_s=500, target_load=0.5)
    assert {one.name: one.value for one in loaded.figures}["needed"] == pytest.approx(2 * needed)
    assert planned(requests_per_s=1000, zones=2).replicas == pytest.approx(2 * bare.replicas, abs=1)


def test_money_is_that_of_all_gpus() -> None:
    """An hour costs every GPU of every replica; the next 10 % cost the whole replicas that they add."""
    found = planned("Llama-3.1-70B", tensor_parallel=4, price=6.88)
    assert found.per_hour == pytest.approx(found.gpus * 6.88)
    assert found.gpus == 4 * found.replicas
    more = planned("Llama-3.1-70B", tensor_parallel=4, requests_per_s=110)
    assert found.next_tenth == more.replicas - found.replicas > 0
    assert found.next_tenth_per_hour == pytest.approx(found.next_tenth * 4 * 6.88)
    spare = planned(price=6.88, requests_per_s=1.0)
    assert (spare.next_tenth, spare.next_tenth_per_hour) == (0, 0.0)


def test_a_prompt_slower_than_the_objective_is_told() -> None:
    """No number of replicas makes one prompt faster."""
    assert planned(lengths=(7000, 211), ttft_s=0.1).misses_ttft
    assert not planned(ttft_s=1.0).misses_ttft


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"requests_per_s": 0.0}, "--peak"),
        ({"requests_per_s": -1.0}, "--peak"),
        ({"requests_per_s": float("nan")}, "--peak"),
        ({"requests_per_s": float("inf")}, "--peak"),
        ({"other_region_per_s": -1.0}, "--other-region"),
        ({"target_load": 0.0}, "--load"),
        ({"target_load": 1.01}, "--load"),
        ({"target_load": float("nan")}, "--load"),
        ({"lengths": (8192, 211)}, "--context: prompt and output"),
    ],
)
def test_an_impossible_traffic_is_refused(changed: dict[str, Any], says: str) -> None:
    """No sheet is printed from a number that no traffic has."""
    with pytest.raises(ArtifactRefused, match=says):
        planned(**changed)


def test_a_model_that_does_not_fit_has_no_sheet() -> None:
    """The memory plan says what would fit."""
    with pytest.raises(ArtifactRefused, match="penstock plan memory"):
        planned("Llama-3.1-70B")


@given(more=st.floats(1.0, 50.0), load=st.floats(0.1, 1.0), zones=st.integers(1, 6))
def test_more_traffic_never_needs_less(more: float, load: float, zones: int) -> None:
    """Replicas only grow with the peak, and with the error of the steps."""
    less = planned(target_load=load, zones=zones)
    found = planned(requests_per_s=100 * more, target_load=load, zones=zones)
    assert less.replicas <= found.replicas <= found.replicas_if_slower
