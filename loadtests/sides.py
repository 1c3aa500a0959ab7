"""What a load test compares: a whole platform and plain vLLM, both up on this machine.

The platform has a home of its own, real vLLM and the tenants that the test names; the plain engine has the same model
and the same engine settings. Whoever is not asked costs next to nothing, so rounds may alternate between them.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from penstock.domain.models.model import EngineSettings

REPOSITORY = Path(__file__).resolve().parents[1]
DEMO_CACHE = REPOSITORY / ".penstock/cache/demo"
START_WITHIN_S = 240.0
MODEL = "smollm2"
PLAIN = "plain vLLM"


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of those compared: its address, the model's name there, and each tenant's key."""

    name: str
    url: str
    model: str
    keys: dict[str, str]
    rpc: str = ""
    """Where gRPC is answered; nothing where it is not."""


@contextmanager
def running(tenants: dict[str, Sequence[str]], *, plain: bool, models: str = MODEL) -> Iterator[list[Side]]:
    """Yield a platform, and a plain engine if wished.

    ``tenants`` maps each tenant's name to options of ``penstock tenants create``; ``models`` as ``PENSTOCK_MODELS``.
    """
    with ExitStack() as stack:
        sides = [stack.enter_context(platform(tenants, models))]
        if plain:
            sides.append(stack.enter_context(plain_engine(tuple(tenants))))
        yield sides


@contextmanager
def platform(
    tenants: dict[str, Sequence[str]], models: str = MODEL, *, name: str = "Penstock", tree: Path | None = None
) -> Iterator[Side]:
    """Yield a platform of its own, of another checkout if ``tree`` is given."""
    with tempfile.TemporaryDirectory(prefix="penstock-load-", ignore_cleanup_errors=True) as folder:
        port = _free_port()
        settings = {"home": f"{folder}/home", "port": str(port), "models": models}
        settings |= {"demo_cache": str(DEMO_CACHE)}
        env = {**os.environ, **{f"PENSTOCK_{key.upper()}": value for key, value in settings.items()}}
        if tree is not None:
            env["PYTHONPATH"] = f"{tree}/platform:{tree}"
        with _process([*_penstock(), "up", "--no-question"], env, Path(folder) / "up.log") as log:
            _until(lambda: _is_up(Path(f"{folder}/home")), "the platform", log)
            keys = {tenant: _key(tenant, options, env) for tenant, options in tenants.items()}
            rpc = Path(f"{folder}/home/run/gateway.grpc.addr").read_text().strip()
            yield Side(name=name, url=f"http://127.0.0.1:{port}", model=models, keys=keys, rpc=rpc)


def _key(tenant: str, options: Sequence[str], env: dict[str, str]) -> str:
    """Make the tenant and return a key of its own."""
    subprocess.run([*_penstock(), "tenants", "create", tenant, *options], env=env, check=True, capture_output=True)
    made = subprocess.run([*_penstock(), "keys", "create", tenant], env=env, check=True, capture_output=True, text=True)
    return next(word for word in made.stdout.split() if word.startswith("psk_"))


def _penstock() -> tuple[str, ...]:
    return (sys.executable, "-m", "penstock.cli")


@contextmanager
def plain_engine(tenants: Sequence[str], *, name: str = PLAIN, options: Sequence[str] = ()) -> Iterator[Side]:
    """Run vLLM as anybody would, with the settings that the platform's engines have."""
    port, model = _free_port(), next(DEMO_CACHE.glob(f"{MODEL}-*"))
    engine = EngineSettings()
    sizes = {
        "max-model-len": engine.max_model_len,
        "max-num-seqs": engine.max_num_seqs,
        "max-num-batched-tokens": engine.max_num_batched_tokens,
        "block-size": engine.block_size,
        "kv-cache-memory-bytes": engine.kv_cache_bytes,
        "dtype": engine.dtype,
        "host": "127.0.0.1",
        "port": port,
        "model": model,
        "served-model-name": "plain",
        "distributed-executor-backend": "uni",
    }
    argv = [sys.executable, "-m", "vllm.entrypoints.launchers.api_server.entry", "--enforce-eager"]
    argv += ["--no-enable-log-requests", "--disable-uvicorn-access-log", *options]
    argv += [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
    threads = str(max(1, (os.cpu_count() or 1) // 2))
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "plain.log"
        with _process(argv, {**env, "OMP_NUM_THREADS": threads}, log):
            url = f"http://127.0.0.1:{port}"
            _until(lambda: _answers(f"{url}/health"), "plain vLLM", log)
            yield Side(name=name, url=url, model="plain", keys=dict.fromkeys(tenants, "none"))


@contextmanager
def _process(argv: Sequence[str], env: dict[str, str], log: Path) -> Iterator[Path]:
    """Yield the log of a process that runs; it ends in good order, or by force where it takes too long."""
    with log.open("wb") as out:
        process = subprocess.Popen(argv, env=env, stdout=out, stderr=out, start_new_session=True)
    try:
        yield log
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _is_up(home: Path) -> bool:
    """Tell whether every worker serves."""
    try:
        return bool(json.loads((home / "run/up.json").read_text()).get("ready"))
    except (OSError, ValueError):
        return False


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False


def _until(holds: Callable[[], bool], what: str, log: Path) -> None:
    end = time.monotonic() + START_WITHIN_S
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not start; its last words:\n{log.read_text()[-2000:]}")
        time.sleep(0.5)
