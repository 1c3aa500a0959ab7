"""The engine's command line and environment."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.domain.ids import ModelName, VersionId, WorkerId
from penstock.domain.models.model import EngineSettings, Manifest, Provenance, SamplingDefaults, Task, Tier
from penstock.domain.money import MicroUsd, Price
from penstock.worker.engines import compiled, plan
from penstock.worker.engines.vllm import Place, arguments, at_exec, environment, threads_for
from penstock.worker.gate_config import GateConfig

VERSION = VersionId("m@0123456789ab")
FREE = MicroUsd(0)
MANIFEST = Manifest(
    name=ModelName("m"),
    task=Task.GENERATE,
    tier=Tier.CHAT,
    files=(),
    price=Price(prompt_per_mtok=FREE, cached_per_mtok=FREE, output_per_mtok=FREE),
    provenance=Provenance(origin="here", licence="Apache-2.0"),
    engine=EngineSettings(max_model_len=1024, kv_cache_bytes=1 << 20, dtype="float32"),
)
PLACE = Place(host="127.0.0.1", port=4711, threads=3)


def line(manifest: Manifest = MANIFEST, place: Place = PLACE) -> tuple[str, ...]:
    return arguments(VERSION, manifest, Path("models/m"), place)


def value(argv: tuple[str, ...], name: str) -> str:
    return argv[argv.index(name) + 1]


def test_the_engine_serves_the_version_under_its_id_behind_the_gate() -> None:
    """Callers reach a version by its id only, at the agent's port, and only through the gate."""
    argv = line()
    assert value(argv, "--served-model-name") == VERSION
    assert value(argv, "--port") == "4711"
    assert value(argv, "--middleware") == "penstock.worker.gate.corridor.Gate"


def test_the_manifests_engine_settings_are_what_it_runs_with() -> None:
    """Context, batch, block size, memory and precision come from the version, not from vLLM's defaults."""
    argv = line()
    settings = {"--max-model-len": "1024", "--max-num-seqs": "32", "--block-size": "32", "--dtype": "float32"}
    assert {name: value(argv, name) for name in settings} == settings
    assert value(argv, "--kv-cache-memory-bytes") == str(1 << 20)
    assert value(argv, "--max-num-queued-reqs") == "256"


def test_prompts_stay_out_of_the_logs() -> None:
    """Neither requests nor an access line per request are logged."""
    assert {"--no-enable-log-requests", "--disable-uvicorn-access-log"} <= set(line())


def test_memory_is_always_bound_on_a_cpu() -> None:
    """A version that names no KV size gets a small one on a CPU, where vLLM would take the machine's memory."""
    silent = replace(MANIFEST, engine=EngineSettings(kv_cache_bytes=0))
    assert int(value(line(silent), "--kv-cache-memory-bytes")) < 1 << 30
    assert "--kv-cache-memory-bytes" not in line(silent, replace(PLACE, device="cuda"))


def test_eager_mode_is_for_cpus() -> None:
    """On a CPU nothing is compiled, since compiled bfloat16 gives wrong text there; a GPU compiles."""
    assert "--enforce-eager" in line()
    assert "--enforce-eager" not in line(place=replace(PLACE, device="cuda"))


def test_an_encoder_runs_as_a_pooling_model() -> None:
    """Embedding models get the pooling runner and none of the generating options."""
    argv = line(replace(MANIFEST, task=Task.EMBED))
    assert value(argv, "--runner") == "pooling"
    assert "--enable-prefix-caching" not in argv


def test_defaults_and_chat_template_of_the_manifest_count() -> None:
    """Sampling defaults that the manifest names, and its template, replace what lies beside the weights."""
    argv = line(replace(MANIFEST, sampling=SamplingDefaults(temperature=0.2, top_k=40), chat_template="{{ messages }}"))
    assert json.loads(value(argv, "--override-generation-config")) == {"temperature": 0.2, "top_k": 40}
    assert value(argv, "--chat-template") == "{{ messages }}"
    assert "--override-generation-config" not in line()


def test_an_engine_never_asks_the_network() -> None:
    """Hub and usage statistics are off wherever it runs; a CPU gets its threads told."""
    for device in ("cpu", "cuda"):
        names = dict(environment(replace(PLACE, device=device)))
        assert (names["HF_HUB_OFFLINE"], names["VLLM_NO_USAGE_STATS"]) == ("1", "1")
    assert dict(environment(PLACE))["OMP_NUM_THREADS"] == "3"


def test_an_engine_asks_for_huge_pages_unless_the_operator_says_otherwise() -> None:
    """What the C library is told counts from the start of the process only."""
    assert at_exec({"HOME": "/"}) == {"HOME": "/", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    assert at_exec({"GLIBC_TUNABLES": "glibc.malloc.arena_max=2"}) == {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2"}


def test_an_engine_leaves_half_of_the_cores_to_others() -> None:
    """One thread on one and two cores, half of them on more."""
    assert [threads_for(cores) for cores in (1, 2, 3, 8)] == [1, 1, 1, 4]


def test_a_plan_comes_back_as_it_was_written_and_is_private(tmp_path: Path) -> None:
    """The file that carries the ticket key is readable by its owner only, also where an older one was not."""
    path = tmp_path / "engine.plan"
    path.write_text("old")
    path.chmod(0o644)
    gate = GateConfig(worker=WorkerId("w"), version=VERSION, ticket_key="00" * 32, max_num_seqs=4)
    written = plan.LaunchPlan(argv=line(), environment=environment(PLACE), gate=gate, forkable=True)
    plan.write(written, path)
    assert plan.read(path) == written
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_engine_fetches_no_media() -> None:
    """Finding 15: the one host that vLLM may fetch from never resolves, and it follows no redirects."""
    assert value(line(), "--allowed-media-domains").endswith(".invalid")
    assert dict(environment(PLACE))["VLLM_MEDIA_URL_ALLOW_REDIRECTS"] == "0"


def test_what_is_compiled_stays_with_the_node() -> None:
    """Finding 7: no compile cache lies in a folder that others can write to, and a CPU engine compiles nothing."""
    names = dict(environment(replace(PLACE, compiled="node/cache")))
    caches = {"HOME", "VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"}
    assert all(names[name].startswith("node/cache/") for name in caches)
    assert names["TORCH_COMPILE_DISABLE"] == "1"
    assert "TORCH_COMPILE_DISABLE" not in dict(environment(replace(PLACE, device="cuda")))


def test_the_folder_of_what_is_compiled_is_closed_to_others(tmp_path: Path) -> None:
    """It is made private, and made private again where it was open."""
    folder = tmp_path / "a/compiled"
    compiled.own(folder)
    folder.chmod(0o777)
    compiled.own(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_what_grammars_hold_is_bounded() -> None:
    """Finding 7: compiled grammars of callers that have left keep a small part of the memory, not vLLM's 512 MB."""
    names = dict(environment(PLACE))
    assert (names["VLLM_XGRAMMAR_CACHE_MB"], names["VLLM_REGEX_COMPILATION_TIMEOUT_S"]) == ("64", "2")


def test_no_compiler_writes_tokens_into_the_log() -> None:
    """The second compiler wrote the text of tokens that it did not take to the process's stderr, past Python."""
    assert dict(environment(PLACE))["LLGUIDANCE_LOG_LEVEL"] == "0"


@pytest.mark.parametrize("secret", ["00" * 32])
def test_no_secret_is_in_the_arguments_or_the_environment(secret: str) -> None:
    """What other users of the machine can read of a process holds no key."""
    assert not any(secret in part for part in (*line(), *(value for _, value in environment(PLACE))))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_version_of_several_gpus_is_spread_over_them() -> None:
    """Finding 3.12: the engine is told over how many GPUs, in words that vLLM's own parser takes; else nothing."""
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    assert "--tensor-parallel-size" not in line()
    spread = replace(MANIFEST, engine=replace(MANIFEST.engine, tensor_parallel_size=4))
    argv = line(spread, replace(PLACE, device="cuda"))
    assert make_arg_parser(FlexibleArgumentParser()).parse_args(list(argv)).tensor_parallel_size == 4


def test_only_a_base_runs_with_adapters() -> None:
    """Slots, memory and ranks come from the manifest; any other version's engine runs as if there were no adapters."""
    base = replace(MANIFEST, engine=replace(MANIFEST.engine, adapter_slots=2, adapter_rank=12))
    found = line(base)
    wanted = {"--max-loras": "2", "--max-cpu-loras": "9", "--max-lora-rank": "16"}
    assert {name: value(found, name) for name in wanted} == wanted
    assert "--enable-lora" in found
    assert value(found, "--worker-extension-cls") == "penstock.worker.engines.adapter_rows_in_worker.Extension"
    assert dict(environment(PLACE, base.engine))["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "1"
    assert not [one for one in line() if "lora" in one or "extension" in one]
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING" not in dict(environment(PLACE, MANIFEST.engine))


def test_the_rows_of_adapters_are_mended_on_a_cpu_only() -> None:
    """On a GPU vLLM's own kernels know which rows have no adapter."""
    base = replace(MANIFEST, engine=replace(MANIFEST.engine, adapter_slots=2, adapter_rank=8))
    assert "--worker-extension-cls" not in line(base, replace(PLACE, device="cuda"))


def test_an_engine_of_a_pool_can_sleep_where_it_has_a_device() -> None:
    """On a GPU it gives the device back and stays; on a CPU, and outside a pool, nothing of that is turned on."""
    pooled = replace(PLACE, device="cuda", sleeps=True)
    assert "--enable-sleep-mode" in line(place=pooled)
    assert dict(environment(pooled, MANIFEST.engine))["VLLM_SERVER_DEV_MODE"] == "1"
    for place in (replace(PLACE, sleeps=True), replace(PLACE, device="cuda")):
        assert "--enable-sleep-mode" not in line(place=place)
        assert "VLLM_SERVER_DEV_MODE" not in dict(environment(place, MANIFEST.engine))


def test_evicted_blocks_are_kept_in_host_memory_on_a_gpu_alone() -> None:
    """In gibibytes, as vLLM counts them; on a CPU vLLM refuses to start with it."""
    manifest = replace(MANIFEST, engine=EngineSettings(kv_offload_bytes=64 << 30))
    assert value(line(manifest, replace(PLACE, device="cuda")), "--kv-offloading-size") == "64"
    assert "--kv-offloading-size" not in line(manifest)
    assert "--kv-offloading-size" not in line(MANIFEST, replace(PLACE, device="cuda"))
