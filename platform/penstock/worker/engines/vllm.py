"""Builds vLLM's command line from a manifest, without importing vLLM: pure, so that a test can read it. Written for
vLLM 0.32.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.domain.ids import VersionId
from penstock.domain.models.model import EngineSettings, Manifest, SamplingDefaults, Task, slot_rank
from penstock.domain.serving.transport import KEPT_ALIVE_S
from penstock.worker.engines import stepping

SHUTDOWN_TIMEOUT_S = 2
"""Seconds that vLLM waits for running requests at SIGTERM. Short, because the agent has drained the engine before."""

QUEUE_PER_SEQUENCE = 8
"""Requests that may wait inside the engine per sequence slot: a second bound behind the gate's."""

CPU_KV_BYTES = 64 << 20
"""KV cache on a CPU if the version names none (encoders need none)."""

NOWHERE = "media.invalid"
"""The only host from which an engine may fetch media: a name that never resolves (RFC 6761). An empty list of hosts
would allow all of them.
"""

GRAMMARS = "xgrammar"
"""What compiles every grammar. By ``auto`` vLLM checks a schema with one compiler and compiles it with the one of the
engine's first request, which leaves out in silence what only the other one holds."""
GRAMMAR_CACHE_MB = 64
"""Megabytes of compiled grammars that the engine keeps: vLLM's default of 512 is half of a small engine."""
GRAMMAR_REGEX_S = 2
"""Seconds that vLLM may compile one regular expression."""

STOPS = 32
"""Stop sequences of one request: Anthropic documents no limit, vLLM's default is 4. Each is looked for after each
token, which takes a tenth of a microsecond."""

_SECRET = frozenset({"PENSTOCK_DATABASE_URL", "PENSTOCK_LIMITS_URL", "PENSTOCK_ANSWERS_URL"})

GATE_MODULE = "penstock.worker.gate.corridor"
GATE = f"{GATE_MODULE}.Gate"
"""vLLM loads the gate by name: no room below the gate imports it."""
SCHEDULERS = "penstock.worker.engines.scheduler"
"""vLLM loads the scheduler by name, in the process of its core."""

ADAPTER_ROWS = "penstock.worker.engines.adapter_rows_in_worker.Extension"
"""vLLM loads this module in the process that runs the model."""
ADAPTERS_PER_SLOT = 4
"""Adapters kept in memory for each batch slot: from there one reaches a slot within a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """``device`` is ``cpu`` or ``cuda``; ``threads`` are arithmetic threads on a CPU. ``compiled`` is the folder of
    compiled code, empty for vLLM's default. With ``sleeps`` an engine on a GPU can free the device and keep its
    process, by endpoints that only the gate reaches.
    """

    host: str
    port: int
    device: str = "cpu"
    threads: int = 1
    compiled: str = ""
    sleeps: bool = False


def arguments(version: VersionId, manifest: Manifest, folder: Path, place: Place) -> tuple[str, ...]:
    return (
        *("--model", str(folder)),
        *("--served-model-name", version),
        *("--host", place.host),
        *("--port", str(place.port)),
        *("--middleware", GATE),
        *(("--scheduler-cls", _scheduler(place)) if shares_steps(manifest) else ()),
        *("--allowed-media-domains", NOWHERE),
        *_sizes(manifest.engine),
        *_wall(manifest.engine),
        *_kv(manifest.engine, place),
        *_ranks(manifest.engine),
        *_adapters(manifest.engine, place),
        *_quiet(),
        *(("--enable-sleep-mode",) if _sleeps_inside(place) else ()),
        *(_pooling() if manifest.task is Task.EMBED else _generating(manifest)),
        *(("--enforce-eager", "--distributed-executor-backend", "uni") if place.device == "cpu" else ()),
    )


def shares_steps(manifest: Manifest) -> bool:
    """A pooling request takes one step only, so there is nothing to share."""
    return manifest.task is Task.GENERATE


def long_prefill(manifest: Manifest) -> int:
    """Prefill tokens of one prompt in a shared step; 0 for no bound."""
    bound = manifest.engine.long_prefill_tokens
    if not shares_steps(manifest):
        return bound
    return stepping.prompt_bound(manifest.engine.max_num_batched_tokens, bound)


def threads_for(cores: int) -> int:
    """Half of the cores: gateway, server and the next engine need the rest. On two cores one thread gave 24
    tokens/s, two that sleep while waiting 18 (two that spin: 32, and 7 beside anything else).
    """
    return max(1, cores // 2)


def at_exec(inherited: Mapping[str, str]) -> dict[str, str]:
    """Variables that take effect only at a process's start. Huge pages back weights and KV cache: with 4 KiB pages a
    CPU step spends a tenth of its time on page look-ups. Addresses that may hold a password are left out.
    """
    kept = {name: value for name, value in inherited.items() if name not in _SECRET}
    return {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", **kept}


def environment(place: Place, engine: EngineSettings | None = None) -> tuple[tuple[str, str], ...]:
    """Settings that have no argument; without a manifest, those common to every engine.

    On a CPU the core runs in the server's process (vLLM's default of two binds the model to one core), and OpenBLAS
    gets no threads, so that a pre-imported parent may fork. Waiting arithmetic threads sleep: spinning ones make a step
    a hundred times as long on a busy machine.
    """
    common = {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": str(KEPT_ALIVE_S),
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0",
        "VLLM_MAX_STOP_STRINGS": str(STOPS),
        "VLLM_XGRAMMAR_CACHE_MB": str(GRAMMAR_CACHE_MB),
        "VLLM_REGEX_COMPILATION_TIMEOUT_S": str(GRAMMAR_REGEX_S),
        "LLGUIDANCE_LOG_LEVEL": "0",  # it writes tokens into the log past everybody
        **_compiled(place),
    }
    if engine is not None and engine.adapter_slots:
        common["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"  # asked by the gate alone: it lets nobody else there
    if place.device == "cpu":
        common |= {
            "TORCH_COMPILE_DISABLE": "1",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "OMP_NUM_THREADS": str(place.threads),
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "passive",
        }
    if _sleeps_inside(place):
        common["VLLM_SERVER_DEV_MODE"] = "1"  # its endpoints for sleep are among those for developers
    return tuple(common.items())


def _compiled(place: Place) -> dict[str, str]:
    if not place.compiled:
        return {}
    return {
        "HOME": f"{place.compiled}/home",  # of whatever else writes there: a container may have none
        "VLLM_CACHE_ROOT": f"{place.compiled}/vllm",
        "TORCHINDUCTOR_CACHE_DIR": f"{place.compiled}/inductor",
        "TRITON_CACHE_DIR": f"{place.compiled}/triton",
    }


def _scheduler(place: Place) -> str:
    """Name, on a CPU, the scheduler that schedules no step while another runs."""
    return f"{SCHEDULERS}.{'TenantScheduler' if place.device == 'cpu' else 'AsyncTenantScheduler'}"


def _sizes(engine: EngineSettings) -> tuple[str, ...]:
    return (
        *("--dtype", engine.dtype),
        *("--max-model-len", str(engine.max_model_len)),
        *("--max-num-seqs", str(engine.max_num_seqs)),
        *("--max-num-batched-tokens", str(engine.max_num_batched_tokens)),
        *("--long-prefill-token-threshold", str(engine.long_prefill_tokens)),
        *("--block-size", str(engine.block_size)),
        *("--shutdown-timeout", str(SHUTDOWN_TIMEOUT_S)),
    )


def _wall(engine: EngineSettings) -> tuple[str, ...]:
    return ("--max-num-queued-reqs", str(QUEUE_PER_SEQUENCE * engine.max_num_seqs))


def _kv(engine: EngineSettings, place: Place) -> tuple[str, ...]:
    """Bound the KV cache on a CPU: vLLM would take nearly all memory, or refuse to start."""
    size_bytes = engine.kv_cache_bytes or (CPU_KV_BYTES if place.device == "cpu" else 0)
    return (
        *(("--kv-cache-memory-bytes", str(size_bytes)) if size_bytes else ()),
        *(("--kv-cache-dtype", engine.kv_cache_dtype) if engine.kv_cache_dtype != "auto" else ()),
        *_offloading(engine, place),
    )


def _offloading(engine: EngineSettings, place: Place) -> tuple[str, ...]:
    """VLLM keeps no evicted blocks in host memory on a CPU. Blocks' hashes contain the salt."""
    if not engine.kv_offload_bytes or place.device == "cpu":
        return ()
    return ("--kv-offloading-size", f"{engine.kv_offload_bytes / (1 << 30):g}")


def _ranks(engine: EngineSettings) -> tuple[str, ...]:
    size = engine.tensor_parallel_size
    return ("--tensor-parallel-size", str(size)) if size > 1 else ()


def kept_adapters(slots: int) -> int:
    return ADAPTERS_PER_SLOT * slots


def _adapters(engine: EngineSettings, place: Place) -> tuple[str, ...]:
    if not engine.adapter_slots:
        return ()
    return (
        "--enable-lora",
        *("--max-loras", str(engine.adapter_slots)),
        *("--max-cpu-loras", str(kept_adapters(engine.adapter_slots) + 1)),  # one more while one takes another's place
        *("--max-lora-rank", str(slot_rank(engine.adapter_rank))),
        *(("--worker-extension-cls", ADAPTER_ROWS) if place.device == "cpu" else ()),
    )


def _sleeps_inside(place: Place) -> bool:
    return place.sleeps and place.device != "cpu"


def _quiet() -> tuple[str, ...]:
    return ("--no-enable-log-requests", "--disable-uvicorn-access-log", "--disable-fastapi-docs")


def _pooling() -> tuple[str, ...]:
    return ("--runner", "pooling")


def _generating(manifest: Manifest) -> tuple[str, ...]:
    defaults = {name: value for name, value in asdict(manifest.sampling).items() if value is not None}
    return (
        "--enable-prefix-caching",
        "--enable-prompt-tokens-details",
        "--enable-per-request-metrics",
        *(("--override-generation-config", json.dumps(defaults)) if manifest.sampling != SamplingDefaults() else ()),
        *(("--chat-template", manifest.chat_template) if manifest.chat_template else ()),
        *("--structured-outputs-config", json.dumps({"backend": GRAMMARS})),
        *_tools(manifest.engine.tool_parser),
    )


def _tools(parser: str) -> tuple[str, ...]:
    """VLLM's default enforces only ``strict`` tools. Without a parser it refuses even a named tool with a schema."""
    if not parser:
        return ()
    return ("--enable-auto-tool-choice", "--tool-call-parser", parser, "--tool-strict-level", "parameter")
