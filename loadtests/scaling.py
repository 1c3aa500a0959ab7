"""One worker to two and back, and to none and back, on real vLLM: a timeline with its waits; and a worker's memory.

Platforms of their own with SmolLM2 alone. The rate of streams doubles until a second worker is wanted; after the window
it sleeps, and a second ramp wakes it. On another one the floor is 0. Some fifteen minutes. With ``--memory`` a second
worker is deployed, and all processes' proportional set sizes tell what it added beside weights and cache. With
``--gateways`` callers keep gateways busy until three of them run, and leave: eight minutes. No engine shares the cores,
so callers are told to come back, after all that a gateway does for a request.

    python -m loadtests.scaling [--memory | --gateways]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import psutil

from penstock.capacity.memory import DEFAULT_KV_BYTES
from tests.support.patience import until
from tests.support.platforms.local import Platform
from tests.support.platforms.scaled import ScaledSite, scaled_site
from tests.support.stores.redis_server import RedisServer

REPOSITORY = Path(__file__).resolve().parents[1]
GATEWAYS = 3
BUSY_S = 120.0
"""Seconds for which callers ask at most: on a machine that others fill, gateways never get the cores of three."""
CALLERS = 8
"""Requests in flight: enough to keep two cores busy with gateways."""
FILES = ("tests/integration/scaling/test_zero.py", "tests/integration/scaling/test_ramp.py")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scaling", description=__doc__)
    parser.add_argument("--memory", action="store_true", help="only the memory of one more worker")
    parser.add_argument("--gateways", action="store_true", help="only gateways, from one to three and back")
    asked = parser.parse_args()
    if asked.gateways:
        _gateways()
        return 0
    if asked.memory:
        for zygote in ("on", "off"):
            _memory(zygote)
        return 0
    return subprocess.run([sys.executable, "-m", "pytest", "-s", "-q", *FILES], cwd=REPOSITORY, check=False).returncode


def _gateways() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="penstock-gateways-", ignore_cleanup_errors=True) as folder,
        RedisServer(Path(folder)) as redis,
    ):
        file = Path(folder) / "scale.yaml"
        file.write_text(f"gateways: {{least: 1, most: {GATEWAYS}}}\n")
        stores = {"limits_url": redis.url, "answers_url": redis.answers_url, "scale_file": str(file)}
        stores["demo_cache"] = str(REPOSITORY / ".penstock/cache/demo")
        with Platform(home=Path(folder) / "home", models="smollm2", workers=0, settings=stores) as platform:
            began, seen, told = time.monotonic(), "", Counter[int]()
            is_over = False
            with ThreadPoolExecutor(CALLERS) as pool:
                callers = [pool.submit(_asking, platform, told, lambda: is_over) for _ in range(CALLERS)]
                while seen != "1 wanted, 1 running" or not is_over:
                    wanted, running = _wanted(platform), len([pid for pid in platform.pids("gateway") if pid])
                    is_over = is_over or running == GATEWAYS or time.monotonic() - began > BUSY_S
                    if (now := f"{wanted} wanted, {running} running") != seen:
                        seen = now
                        print(f"{time.monotonic() - began:6.1f} s  {now}; answers {dict(told)}", flush=True)
                    time.sleep(1)
                for one in callers:
                    one.result()


def _wanted(platform: Platform) -> int | None:
    key = {"authorization": f"Bearer {platform.admin_key}"}
    url = f"{platform.controller_url}/admin/v1/scale"
    found: int | None = httpx.get(url, headers=key, trust_env=False, timeout=30).json()["gateways_wanted"]
    return found


def _asking(platform: Platform, told: Counter[int], is_over: Callable[[], bool]) -> None:
    """Ask on a connection of its own, again if a gateway that goes has closed it; a broken answer is status 0."""
    body = {"model": "smollm2", "messages": [{"role": "user", "content": "Tell me of the sea. " * 100}]}
    while not is_over():
        with platform.http() as http:
            for _ in range(200):
                try:
                    told[http.post("/v1/chat/completions", json=body).status_code] += 1
                except httpx.TransportError:
                    told[0] += 1
                if is_over():
                    break


def _memory(zygote: str) -> None:
    cache = REPOSITORY / ".penstock/cache"
    kept = {"demo_cache": str(cache / "demo"), "compile_cache": str(cache / "compiled"), "engine_zygote": zygote}
    with (
        tempfile.TemporaryDirectory(prefix="penstock-memory-", ignore_cleanup_errors=True) as folder,
        scaled_site(Path(folder) / "home", kept, "least: 1, most: 2") as site,
    ):
        site.ask()
        one = _held_bytes(site)
        site.deploy(2)
        until("two serve", lambda: site.states == ["ready", "ready"], within_s=240)
        for _ in range(4):
            site.ask()
        added = _held_bytes(site) - one
        weights = next((cache / "demo").glob("smollm2-*")) / "model.safetensors"
        kv_bytes = site.admin(f"/models/{site.version}")["manifest"]["engine"]["kv_cache_bytes"] or DEFAULT_KV_BYTES
        beside = added - weights.stat().st_size - kv_bytes
        print(f"forked from one parent: {zygote}; one more worker adds {added / 1e9:.2f} GB, {beside / 1e9:.2f} beside")


def _held_bytes(site: ScaledSite) -> int:
    """Return the proportional set sizes of all processes of the platform."""
    total = 0
    for process in site.platform.survivors():
        with suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss
    return total


if __name__ == "__main__":
    sys.exit(main())
