"""vLLM lays out the KV cache of each attention shape as the plan does: real engines, weights without meaning."""

import json
import os
import subprocess
import sys

import pytest

from penstock.capacity.kv import CacheSettings, layout
from penstock.packaging.architecture import architecture_of
from tests.support.samples.attention import LAYOUTS, READ_WITH, settings_of

pytestmark = pytest.mark.drill
POOL_BYTES = 256 << 20
ASK = """
import gc, json, sys
import vllm
from vllm.engine.arg_utils import EngineArgs
from vllm.v1.engine.llm_engine import LLMEngine
for path in sys.argv[1:]:
    engine = LLMEngine.from_engine_args(EngineArgs(
        model=path, load_format="dummy", skip_tokenizer_init=True, enforce_eager=True, dtype="bfloat16",
        max_model_len=8192, block_size=32, kv_cache_memory_bytes=256 << 20, max_num_batched_tokens=2048,
        max_num_seqs=8, disable_log_stats=True, distributed_executor_backend="uni"))
    cache = engine.vllm_config.cache_config
    told = {"version": vllm.__version__, "blocks": cache.num_gpu_blocks, "tokens": cache.kv_cache_size_tokens}
    print("TOLD", json.dumps(told), flush=True)
    del engine
    gc.collect()
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """Return the engine's own figures of each shape, by name."""
    folder = tmp_path_factory.mktemp("shapes")
    for shape in LAYOUTS:
        (folder / shape.name).mkdir()
        (folder / shape.name / "config.json").write_text(json.dumps(settings_of(shape)))
    asked = subprocess.run(
        [sys.executable, "-c", ASK, *(str(folder / shape.name) for shape in LAYOUTS)],
        env={**os.environ, "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    lines = [json.loads(line[5:]) for line in asked.stdout.splitlines() if line.startswith("TOLD ")]
    assert len(lines) == len(LAYOUTS), asked.stderr[-3000:]
    return {shape.name: line for shape, line in zip(LAYOUTS, lines, strict=True)}


@pytest.mark.parametrize("shape", LAYOUTS, ids=lambda one: one.name)
def test_the_plan_is_within_two_per_cent_of_the_engine(shape: object, told: dict[str, dict[str, object]]) -> None:
    """Blocks and tokens of a pool of 256 MiB, the shape read from the settings that the engine read."""
    one = next(each for each in LAYOUTS if each is shape)
    read = architecture_of(settings_of(one))
    planned = layout(read, CacheSettings(block_tokens=32, context_tokens=8192, step_tokens=2048))
    assert planned.pool_blocks(POOL_BYTES) == pytest.approx(told[one.name]["blocks"], rel=0.02)
    assert planned.told_tokens(POOL_BYTES) == pytest.approx(told[one.name]["tokens"], rel=0.02)


def test_the_readings_of_the_quick_tests_are_the_engines(told: dict[str, dict[str, object]]) -> None:
    """What the unit tests hold the plan against is read again here, with its version."""
    read = {shape.name: {"version": READ_WITH, "blocks": shape.blocks, "tokens": shape.tokens} for shape in LAYOUTS}
    assert told == read
