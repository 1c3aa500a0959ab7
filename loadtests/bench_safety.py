"""What content filters cost a gateway for each token, and what the shipped packs find in answers and in source code.

Run: ``make bench-safety``; with ``URL=`` and ``KEY=`` of a platform, on its answers too. Three gateways before one stub
engine, in turn: without the safety stage, without a pack, under ``secrets``, ``pii`` and 500 phrases. CPU is each
gateway's own account; a ratio is the median of rounds beside each other in time. Ends with 1 if a gateway without packs
costs more than one without the stage.
"""

import argparse
import json
import statistics
import sys
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import uvloop

from loadtests import bench_home
from loadtests.bench_filters import classifier, held, packs, policy
from loadtests.bench_gateway import CONCURRENCY, STREAM_TOKENS, Process, behave, chat, gateway, stub_engine
from loadtests.load_client import closed_loop
from penstock import settings
from penstock.apps.gateway import process
from penstock.filters import shipped
from penstock.filters.judge import Judge
from penstock.filters.pack import Pack
from penstock.filters.whole import spans
from penstock.gateway.calls.call import Admitted
from penstock.gateway.calls.relay import Reply
from penstock.gateway.safety.stage import ScreenedRequests
from tests.support.gateways.process import book

UNSCREENED = "unscreened"
MOST = 1.03
"""Of the CPU per token without the stage: its own rounds differ by as much."""
QUESTIONS = (
    "Tell me a story about a dog.",
    "Write a Python function that sorts a list.",
    "Give me advice for a job interview.",
    "Write an email to my boss asking for leave.",
    "How do I kill a process in Linux?",
    "Explain how a bank works.",
    "Write a SQL query for the top customers.",
    "What are the symptoms of a cold?",
)
ANSWERS, AT_ONCE = 32, 4
MEGABYTE = 1_000_000


@dataclass
class Side:
    name: str
    process: Process
    key: str
    us: list[float] = field(default_factory=list)

    async def ask(self, seconds: float) -> None:
        request = chat(self.process.url, self.key, tokens=STREAM_TOKENS, stream=True)
        before = self.process.cpu_s()
        answered = await closed_loop(self.process.url, request, callers=CONCURRENCY, seconds=seconds)
        if answered.failed or not answered.done:
            raise SystemExit(f"bench: {answered.failed} streams failed, {answered.done} were answered")
        self.us.append((self.process.cpu_s() - before) / (answered.done * STREAM_TOKENS) * 1e6)


async def run(stub: Process, sides: list[Side], rounds: int, seconds: float) -> bool:
    """Measure and print; return whether a gateway without packs costs what one without the stage does."""
    behave(stub, step_ms=0.0)
    for number in range(rounds + 1):
        for side in sides if number % 2 else reversed(sides):
            await side.ask(seconds)
    bare, kept = sides[0], True
    for side in sides:
        each, less = side.us[1:], bare.us[1:]  # the first round warms up
        ratio = statistics.median(one / other for one, other in zip(each, less, strict=True))
        added = statistics.median(one - other for one, other in zip(each, less, strict=True))
        kept &= side is not sides[1] or ratio <= MOST
        us = statistics.median(each)
        print(f"{side.name:<36} {us:6.1f} us of CPU a token, {added:+6.1f} us, {ratio:.3f} times", flush=True)
    return kept


def unscreened() -> None:
    """Run a gateway without the safety stage."""

    async def screen(_: ScreenedRequests, call: Admitted, reply: Reply) -> Reply:
        del call
        return reply

    setattr(ScreenedRequests, "screen", screen)  # noqa: B010  mypy would have it stay as it is
    process.main(settings.load(), None)


def costs(rounds: int, seconds: float) -> bool:
    plain, every = [sys.executable, "-m", "penstock.cli", "gateway"], packs()
    with ExitStack() as stack:
        stub, sides = stack.enter_context(stub_engine()), list[Side]()
        for name, command, filtering in (
            ("without the safety stage", [sys.executable, "-m", "loadtests.bench_safety", UNSCREENED], ()),
            ("without a pack", plain, ()),
            ("secrets, pii and 500 phrases", plain, every),
        ):
            root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-")))
            home = bench_home.write(root, [stub.url])
            (root / "run/gateway/packs.json").write_bytes(book(filtering, [pack.id for pack in filtering]))
            sides.append(Side(name, stack.enter_context(gateway(command, home)), home.key))
        return uvloop.run(run(stub, sides, rounds, seconds))


def answers(url: str, key: str) -> list[list[str]]:
    """Return the tokens of what a running platform's demo model says to some everyday questions."""
    with (
        httpx.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=300, trust_env=False) as http,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        return list(pool.map(lambda number: answer(http, number), range(ANSWERS)))


def answer(http: httpx.Client, number: int) -> list[str]:
    turns = [{"role": "user", "content": QUESTIONS[number % len(QUESTIONS)]}]
    body = {"model": "smollm2", "messages": turns, "max_tokens": 160, "temperature": 0.8, "seed": number}
    with http.stream("POST", "/v1/chat/completions", json={**body, "stream": True}) as told:
        told.raise_for_status()
        events = [json.loads(line.removeprefix("data: ")) for line in told.iter_lines() if line.startswith("data: {")]
    if failed := [event for event in events if "error" in event]:
        raise SystemExit(f"bench: an answer broke off: {failed[0]['error']}")
    return [text for event in events for one in event["choices"] if (text := one["delta"].get("content"))]


def lags(said: Sequence[Sequence[str]]) -> None:
    """Print how many tokens came before a token of an answer could leave."""
    print(f"\nthe demo model's answers: {len(said)} of {sum(map(len, said)):,} tokens")
    for name, compiled in (("by what may still match", policy()), ("by sentence (pack abuse)", classifier())):
        each = [held(compiled, tokens) for tokens in said]
        firsts, waits = sorted(waits[0] for waits in each), sorted(wait for waits in each for wait in waits)
        told = f"first p50 {statistics.median(firsts):g}, at most {firsts[-1]}; mean {statistics.mean(waits):.1f}"
        print(f"{name:32} {told}, p99 {waits[int(len(waits) * 0.99)]}")


def found(said: Sequence[str]) -> None:
    """Print what each rule of each shipped pack finds, in a megabyte."""
    library = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    texts = {
        "source code (Python's library)": [path.read_text(errors="replace") for path in library],
    }
    if said:
        texts["the demo model's answers"] = list(said)
    for kind, each in texts.items():
        size = sum(map(len, each))
        print(f"\n{kind}: {len(each)} texts, {size:,} characters")
        for name in shipped.NAMES:
            counts = Counter[str]()
            for text in each:
                counts.update(_rules(shipped.pack(name), text))
            told = ", ".join(f"{rule} {count}" for rule, count in counts.most_common()) or "nothing"
            print(f"  {name:8} {told}  ({sum(counts.values()) / size * MEGABYTE:.1f} in a megabyte)")


def _rules(pack: Pack, text: str) -> Iterable[str]:
    """Yield the rule of each match; those that overlap are one."""
    ends = dict.fromkeys(range(len(pack.rules)), 0)
    for rule, start, end in sorted(spans(Judge(pack.rules), text), key=lambda one: one.start):
        if start >= ends[rule]:
            yield pack.rules[rule].name
        ends[rule] = max(ends[rule], end)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", nargs="?", choices=[UNSCREENED])
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--url", default="", help="of a running platform without packs")
    parser.add_argument("--key", default="")
    asked = parser.parse_args()
    if asked.role:
        unscreened()
        return 0
    kept = costs(asked.rounds, asked.seconds)
    said = answers(asked.url, asked.key) if asked.url else []
    if said:
        lags(said)
    found(list(map("".join, said)))
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
