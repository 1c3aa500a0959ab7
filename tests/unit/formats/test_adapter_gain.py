"""What an adapter's matrices may multiply by is told from its file alone."""

import math
from pathlib import Path

import pytest

from penstock.formats.adapter_gain import LoraPair, fault_of, scale_of
from tests.support.models.adapter_folders import Tensor, write

A, B = "base_model.model.q.lora_A.weight", "base_model.model.q.lora_B.weight"


def made(folder: Path, a: float, b: float) -> Path:
    """Return a file of one pair: rank 2, 5 inputs, 3 outputs."""
    path = folder / "adapter_model.safetensors"
    write(
        path, {A: Tensor((2, 5), [0.0] * 9 + [a]), "n": Tensor((1,), [7.0], "F64"), B: Tensor((3, 2), [b] + [0.0] * 5)}
    )
    return path


@pytest.mark.parametrize(
    ("a", "b", "why"),
    [
        (0.5, -0.5, ""),
        (1e36, 1e36, f"{A} may multiply its input by"),
        (1e36, 0.0, f"{A} may multiply its input by"),
        (0.0, -1e36, f"{A} may multiply its input by"),
        (math.nan, 0.0, f"{A} has numbers that are none"),
        (0.0, -math.inf, f"{B} has numbers that are none"),
    ],
)
def test_a_file_is_refused_by_its_largest_values(tmp_path: Path, a: float, b: float, why: str) -> None:
    """Either matrix counts alone; who made the adapter is told where to look."""
    fault = fault_of(made(tmp_path, a, b), 2.0, "bfloat16")
    assert fault.startswith(why)
    assert bool(fault) == bool(why)


@pytest.mark.parametrize(("dtype", "most"), [("float32", 1e8), ("bfloat16", 1e8), ("float16", 1e6), ("auto", 1e6)])
def test_the_bound_is_the_precisions(dtype: str, most: float) -> None:
    """An unknown precision has the smallest."""
    assert LoraPair(most_a=1.0, most_b=most / 10, inputs=5, rank=2).fault(1.0, dtype) == ""
    assert LoraPair(most_a=1.0, most_b=most / 10, inputs=5, rank=2).fault(1.1, dtype)


def test_the_scale_is_by_rank_or_its_root() -> None:
    """LoRA and rsLoRA."""
    assert (scale_of(16, 8, is_rank_stabilised=False), scale_of(16, 8, is_rank_stabilised=True)) == (0.5, 2.0)
