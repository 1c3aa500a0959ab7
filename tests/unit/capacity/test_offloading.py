"""The engine's own offloading is planned only if it pays, and vLLM is as the plan takes it to be."""

import ast
import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.capacity.gpus import GIB, gpu
from penstock.capacity.memory_plan import Lengths, MemoryPlan, Target, plan, stored_bytes
from penstock.capacity.offloading import PrefixHistory, offloading
from penstock.capacity.told import settings
from penstock.domain.errors import ArtifactRefused
from penstock.packaging.architecture import architecture_of
from penstock.packaging.known_models import MODELS

HISTORY = PrefixHistory(hits=0.3, evicted=0.12)
TARGET = Target(
    context_tokens=8192,
    lengths=Lengths(pairs=((1155, 211),)),
    itl_s=0.05,
    host_bytes=64 * GIB,
    history=HISTORY,
)


def planned(model: str, on: str, target: Target) -> MemoryPlan:
    shape = architecture_of(MODELS[model])
    return plan(shape, stored_bytes(shape), gpu(on), target)


@given(
    hits=st.floats(0, 0.9),
    evicted=st.floats(0, 0.1),
    link_s=st.floats(1e-7, 1e-3),
    compute_s=st.floats(1e-7, 1e-3),
)
def test_it_is_on_if_and_only_if_less_time_passes_with_it(
    hits: float, evicted: float, link_s: float, compute_s: float
) -> None:
    """Seconds a prompt token, counted from the traffic: with it all but hits cross the link, and less is computed."""
    without_s = (1 - hits) * compute_s
    with_s = (1 - hits - evicted) * compute_s + (1 - hits) * link_s
    found = offloading(8 * GIB, PrefixHistory(hits=hits, evicted=evicted), link_s=link_s, compute_s=compute_s)
    if abs(with_s - without_s) > 1e-12:
        assert bool(found.size_bytes) == (with_s < without_s)
    assert found.because


@pytest.mark.parametrize(("host", "history"), [(0, HISTORY), (64 * GIB, None)])
def test_without_memory_or_history_it_stays_off_and_says_so(host: int, history: PrefixHistory | None) -> None:
    """Nothing is turned on by a guess."""
    found = planned("Llama-3.1-8B", "H100", replace(TARGET, host_bytes=host, history=history))
    assert found.offloading.size_bytes == 0
    assert "given" in found.offloading.because


def test_a_large_model_pays_for_it_earlier_than_a_small_one() -> None:
    """Of 10 % evicted the 8B model's prompts gain on an L40S; a model of 135 million computes as fast as it copies."""
    target = replace(TARGET, history=PrefixHistory(hits=0.3, evicted=0.1))
    assert planned("Llama-3.1-8B", "L40S", target).offloading.size_bytes == 64 * GIB
    assert planned("SmolLM2-135M", "T4", target).offloading.size_bytes == 0


def test_the_setting_comes_with_its_reason() -> None:
    """As all others: a number for the manifest, and the sentence for a person."""
    (row,) = [one for one in settings(planned("Llama-3.1-8B", "H100", TARGET)) if one["name"] == "kv_offload_bytes"]
    assert row["value"] == 64 * GIB
    assert "pays from" in row["because"]


@pytest.mark.parametrize(("hits", "evicted"), [(0.9, 0.2), (-0.1, 0.1), (float("nan"), 0.1), (0.1, float("inf"))])
def test_parts_that_are_none_are_refused(hits: float, evicted: float) -> None:
    """Of the same tokens no more than all were hit or evicted."""
    with pytest.raises(ArtifactRefused, match=r"--hits and --evicted|--(hits|evicted): \S+ is not within 0 to 1"):
        planned("Llama-3.1-8B", "H100", replace(TARGET, history=PrefixHistory(hits=hits, evicted=evicted)))


def vllm(*path: str) -> str:
    """Return the text of a file of the installed vLLM, which is not imported."""
    found = importlib.util.find_spec("vllm")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent.joinpath(*path).read_text()


def parameters(text: str, class_: str) -> Sequence[str]:
    """Return the names of a class's constructor's parameters."""
    found = next(one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.ClassDef) and one.name == class_)
    made = next(one for one in found.body if isinstance(one, ast.FunctionDef) and one.name == "__init__")
    return [one.arg for one in made.args.args]


def test_vllm_has_the_setting_and_tells_hits_by_tier() -> None:
    """A newer engine that names them otherwise fails here, not in silence on a GPU."""
    assert '"--kv-offloading-size"' in vllm("engine", "arg_utils.py")
    assert "kv_offloading_size * (1 << 30)" in vllm("config", "vllm.py"), "gibibytes"
    assert '"vllm:prompt_tokens_cached_by_source"' in vllm("v1", "metrics", "loggers.py")
    sources = vllm("v1", "metrics", "cache_hit_source.py")
    assert all(f'= "{tier}"' in sources for tier in ("device", "host", "disk"))


def test_vllm_copies_on_gpus_alone_and_neither_bounds_nor_empties_its_disk_tier() -> None:
    """Why a worker on a CPU gets no such setting, and why no plan names the disk: files of prompts would fill it."""
    assert "only supported on CUDA-alike" in vllm("v1", "kv_offload", "cpu", "spec.py")
    files = vllm("v1", "kv_offload", "tiering", "fs", "manager.py")
    assert parameters(files, "FileSystemTierManager")
    assert not [one for one in parameters(files, "FileSystemTierManager") if "size" in one or "max" in one]
    assert "evict" not in files
