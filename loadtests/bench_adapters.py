"""What adapters cost on real vLLM: four over two slots against two, a hit's and a first use's time to first token.

With fewer callers than twice the engine's slots, four adapters can't fill them: two slots have half of the callers at a
time. ``half`` is what that many do alone, the most that any order of them could reach.

Run: ``make bench-adapters``. One worker of SmolLM2 with two slots, asked as a gateway asks; rounds alternate, so both
sides see the same machine. Also what the slots cost the queue for each request, on this process's own CPU clock. Ends
with 1 if a bound is broken.
"""

import argparse
import asyncio
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from penstock.domain.ids import TenantId, VersionId
from penstock.settings import Settings
from penstock.supervision.files import write_private
from penstock.worker.gate.queueing.adapter_slots import AdapterSlots
from penstock.worker.gate.queueing.residents import Residents
from tests.support.workers.process import TicketMaker, WorkerProcess
from tests.support.workers.with_adapters import JSON_GOLDEN, PIRATE_GOLDEN, Site

LEAST_RATIO, MOST_HIT_S, MOST_COLD_S, MOST_SLOT_US = 0.85, 0.020, 0.050, 3.0
TOKENS = 64
CHAT = "/v1/chat/completions"
PROMPT = "What is the capital of Japan?"
LOADED = "penstock_adapter_load_seconds_sum"


@dataclass
class Heard:
    """What callers of one side heard: tokens, and seconds to the first one."""

    tokens: int = 0
    seconds: float = 0.0
    first_s: list[float] = field(default_factory=list)

    @property
    def per_s(self) -> float:
        return self.tokens / self.seconds


async def stream(
    client: httpx.AsyncClient, worker: WorkerProcess, adapter: str, tokens: int = TOKENS, prompt: str = PROMPT
) -> float:
    """Have one answer streamed; return the seconds to its first token."""
    body = {
        "model": adapter or worker.version,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": tokens,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
    }
    maker = TicketMaker(adapter=adapter, seconds=120, output_tokens=tokens)
    raw, headers = worker.sealed(CHAT, body, maker)
    began, first_s = time.monotonic(), 0.0
    async with client.stream("POST", f"{worker.report['url']}{CHAT}", content=raw, headers=headers) as answer:
        if answer.status_code != httpx.codes.OK:
            raise SystemExit(f"bench: {answer.status_code}: {(await answer.aread()).decode()}")
        async for line in answer.aiter_lines():
            if not first_s and '"content":"' in line and '"content":""' not in line:
                first_s = time.monotonic() - began
    return first_s


async def loop(worker: WorkerProcess, adapters: Sequence[str], callers: int, seconds: float) -> Heard:
    """Have ``callers`` ask these adapters in turn, one after the other, for ``seconds``."""
    heard, until = Heard(), time.monotonic() + seconds

    async def ask(client: httpx.AsyncClient, adapter: str) -> None:
        while time.monotonic() < until:
            heard.first_s.append(await stream(client, worker, adapter))
            heard.tokens += TOKENS

    began = time.monotonic()
    async with httpx.AsyncClient(trust_env=False, timeout=120, limits=httpx.Limits(max_connections=None)) as client:
        await asyncio.gather(*(ask(client, adapters[number % len(adapters)]) for number in range(callers)))
    heard.seconds = time.monotonic() - began
    return heard


async def alone(worker: WorkerProcess, adapters: Sequence[str], times: int, prompt: str = PROMPT) -> dict[str, float]:
    """Ask each in turn, one request at a time; return the median seconds to the first token."""
    first: dict[str, list[float]] = {one: [] for one in adapters}
    async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
        for _ in range(times):
            for one in adapters:
                first[one].append(await stream(client, worker, one, 4, prompt))
    return {one: statistics.median(found) for one, found in first.items()}


def cold(worker: WorkerProcess, adapters: Sequence[str]) -> list[tuple[float, float, float]]:
    """Ask each for the first time; return seconds to the first token, of its load by the gate's count, and of its
    base.

    The base gets the same prompts and has never seen them either, so neither has them cached.
    """
    found = []
    for number, one in enumerate(adapters):
        prompt, before = f"Of {number + 2} towns that I name you: {PROMPT}", worker.metric(LOADED)
        base_s = asyncio.run(alone(worker, [""], 1, prompt))[""]
        first_s = asyncio.run(alone(worker, [one], 1, prompt))[one]
        found.append((first_s, worker.metric(LOADED) - before, base_s))
    return found


def slot_us(requests: int = 100_000) -> float:
    """Return microseconds of CPU that the slots cost a request: asked for, entered, left."""
    residents, tenant = Residents(8), TenantId("t")
    names = [VersionId(f"a{number}@000000000000") for number in range(4)]
    for one in names:
        residents.loaded(one, 0.0)
        residents.ready(one, 0.0)
    slots, began = AdapterSlots(2, residents), time.process_time()
    for number in range(requests):
        now, adapter = number * 1e-3, names[number % 2 if number % 64 else 2 + number % 128 // 64]
        residents.came(adapter, tenant, now)
        if slots.ask(adapter, now):
            slots.enter(adapter, now)
            slots.leave(adapter)
        if residents.gone(adapter, tenant):
            slots.gave_up(adapter)
    return (time.process_time() - began) / requests * 1e6


def measure(worker: WorkerProcess, adapters: Sequence[str], options: argparse.Namespace) -> bool:
    """Measure everything and print it; tell whether all bounds hold."""
    ok = True
    asyncio.run(alone(worker, [""], 5))  # whatever is made at the first request of all
    for first_s, load_s, base_s in cold(worker, adapters):
        what = f"first use {first_s:.3f} s, its load {load_s:.3f} s, its base {base_s:.3f} s"
        ok &= said(what, first_s - load_s - base_s, MOST_COLD_S, "s beyond both")
    first = asyncio.run(alone(worker, ["", adapters[0]], options.times))
    hit_s = first[adapters[0]] - first[""]
    ok &= said(f"base {first['']:.4f} s, adapter in a slot {first[adapters[0]]:.4f} s", hit_s, MOST_HIT_S, "s more")
    for callers in options.callers:
        sides: dict[str, list[Heard]] = {}
        for _ in range(options.rounds):
            for name, asked, many in (
                ("base", [""], callers),
                ("two", adapters[:2], callers),
                ("half", adapters[:2], callers // 2),
                ("four", adapters, callers),
            ):
                heard = asyncio.run(loop(worker, asked, many, options.seconds))
                sides.setdefault(name, []).append(heard)
        for name, found in sides.items():
            waits = statistics.median(one for each in found for one in each.first_s)
            sys.stdout.write(f"{callers} callers, {name:5} {_median(found):7.1f} tokens/s, first token {waits:.2f} s\n")
        reached = _median(sides["four"]) / _median(sides["half"])
        sys.stdout.write(f"{callers} callers: {reached:.3f} of what two slots do with half of the callers\n")
        ratio = _median(sides["four"]) / _median(sides["two"])
        ok &= said(f"{callers} callers, four adapters over two slots", -ratio, -LEAST_RATIO, "of two")
    return said("slots, for each request", slot_us(), MOST_SLOT_US, "us") and ok


def said(what: str, value: float, most: float, unit: str) -> bool:
    """Print a figure beside its bound (negative: a lower bound); tell whether it holds."""
    sign = "at least" if most < 0 else "at most"
    sys.stdout.write(f"{what}: {abs(value) if most < 0 else value:.3f} {unit} ({sign} {abs(most):.3f})\n")
    sys.stdout.flush()
    return value <= most


def _median(heard: Sequence[Heard]) -> float:
    return statistics.median(one.per_s for one in heard)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench_adapters", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--callers", type=int, nargs="+", default=[16, 32])
    parser.add_argument("--demo-cache", default=".penstock/cache/demo")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        home = Path(folder)
        write_private(home / "platform.key", secrets.token_hex(32))
        cache = str(Path(options.demo_cache).resolve())
        site = Site(settings=Settings(home=home, demo_cache=cache), work=home / "made")
        base = site.publish_base()
        golden = {"triage": JSON_GOLDEN, "pirate": PIRATE_GOLDEN}
        adapters = [site.publish(kind, site.trained(kind), [one]) for kind, one in golden.items()]
        adapters += [site.publish(f"{kind}-2", site.like(kind, f"{kind}-2"), [one]) for kind, one in golden.items()]
        settings = {"demo_cache": cache, "probe_timeout_s": "60"}
        with WorkerProcess(home=home, version=base.id, id="bench", settings=settings) as worker:
            worker.ready(within_s=180)
            if not measure(worker, adapters, options):
                raise SystemExit(1)


if __name__ == "__main__":
    main()
