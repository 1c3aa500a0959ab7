"""One worker to two and back, and to none and back, on real vLLM: a timeline with its waits; and a worker's memory.

Platforms of their own with SmolLM2 alone. The rate of streams doubles until a second worker is wanted; after the window
it sleeps, and a second ramp wakes it. On another one the floor is 0. Some fifteen minutes. With ``--memory`` a second
worker is deployed, and all processes' proportional set sizes tell what it added beside weights and cache.

    python -m loadtests.scaling [--memory]
"""

import argparse
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil

from penstock.capacity.memory import DEFAULT_KV_BYTES
from tests.support.patience import until
from tests.support.platforms.scaled import ScaledSite, scaled_site

REPOSITORY = Path(__file__).resolve().parents[1]
FILES = ("tests/integration/scaling/test_zero.py", "tests/integration/scaling/test_ramp.py")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scaling", description=__doc__)
    parser.add_argument("--memory", action="store_true", help="only the memory of one more worker")
    if parser.parse_args().memory:
        for zygote in ("on", "off"):
            _memory(zygote)
        return 0
    return subprocess.run([sys.executable, "-m", "pytest", "-s", "-q", *FILES], cwd=REPOSITORY, check=False).returncode


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
