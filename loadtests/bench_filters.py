"""What content filters cost a token and how long they hold one: in process, by CPU clock, beside fixed windows.

Run: ``make bench-safety``; ``PEERS=1`` installs NeMo Guardrails beside it, and compares what leaves of a key. Best of
fifteen. The bare pass is RE2 over each event alone; with the wheel ``hyperscan`` its stream mode is timed too. The
guard gets a chat's events, and writes into nothing. Ends with 1 if the first visible token comes more than one token
later, or a lag is beyond its bound.
"""

import importlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from loadtests.environments import environment
from penstock.domain.serving.request import Api, Prepared
from penstock.filters import shipped
from penstock.filters.hold import Compiled, Tail
from penstock.filters.judge import Judge, expressions
from penstock.filters.pack import Action, Mode, Pack, Rule, Where, strictest
from penstock.gateway.answers import sse
from penstock.gateway.calls.call import Call, Timings
from penstock.gateway.calls.lease import Lease
from penstock.gateway.safety.judging import Judgement
from penstock.gateway.safety.stream_guard import StreamGuard
from tests.support.gateways.dispatch import UNASKED, FakeReply, stream_request
from tests.support.samples.calls import DUE, VERSION, principal

ROOT = Path(__file__).parent.parent
TOKENS = 1_000
CHARACTERS = 4
"""Characters of a token: English prose has 4.25."""
ROUNDS = 15
PHRASES = 500
MOST_FIRST, MOST_MEAN, MOST_P99 = 1, 3.0, 25
MOST_FIRST_OF_SENTENCE = 12
KEY = "AKIAIOSFODNN7EXAMPLE"
STREAMS = 200
"""With a key at a random place."""
_chance = random.Random(1)


def texts() -> dict[str, list[str]]:
    """Return prose and code as tokens: words with their blank before them, cut at twice ``CHARACTERS``."""
    found = {"prose": "docs/how-it-decides/waiting.md", "code": "platform/penstock/gateway/pipeline.py"}
    return {name: tokens((ROOT / path).read_text()) for name, path in found.items()}


def tokens(text: str) -> list[str]:
    """Cut before each blank, and long words again."""
    edges = [0, *(at for at in range(1, len(text)) if text[at].isspace() and not text[at - 1].isspace()), len(text)]
    words = [text[start:end] for start, end in pairwise(edges)]
    size = 2 * CHARACTERS
    return [word[at : at + size] for word in words for at in range(0, len(word), size)][:TOKENS]


def phrases() -> tuple[str, ...]:
    """Return phrases of one to three of the house's own words, each with one that occurs nowhere."""
    words = sorted({word for word in (ROOT / "README.md").read_text().split() if word.isalpha()})
    return tuple(" ".join([*_chance.sample(words, _chance.randint(1, 2)), "zq"]) for _ in range(PHRASES))


def classifier() -> Compiled:
    return Compiled(strictest([replace(shipped.pack("abuse"), mode=Mode.ENFORCE)]), Where.OUTPUT)


def packs() -> list[Pack]:
    own = Pack(id="own", version=1, rules=(Rule(name="own", action=Action.BLOCK, category="c", phrases=phrases()),))
    return [shipped.pack("secrets"), shipped.pack("pii"), own]


def policy() -> Compiled:
    return Compiled(strictest(packs()), Where.OUTPUT)


def timed(work: Callable[[], object]) -> float:
    """Return microseconds of CPU for each of ``TOKENS``."""
    best = float("inf")
    for _ in range(ROUNDS):
        before = time.process_time()
        work()
        best = min(best, time.process_time() - before)
    return best / TOKENS * 1e6


def held(compiled: Compiled, parts: Sequence[str]) -> list[int]:
    """Return for each token the tokens that came before it left."""
    tail, waits, ends = Tail(compiled), list[int](), list[int]()
    for at, part in enumerate(parts):
        tail.feed(part, is_last=at == len(parts) - 1)
        ends.append(tail.total)
        while len(waits) < len(ends) and ends[len(waits)] <= tail.safe:
            waits.append(len(ends) - 1 - len(waits))
    return waits


def windowed(size: int) -> list[int]:
    return [min(size, TOKENS - 1 - at) for at in range(TOKENS)]


def chunked(size: int) -> list[int]:
    return [min(size - 1 - at % size, TOKENS - 1 - at) for at in range(TOKENS)]


def row(name: str, waits: Sequence[int]) -> tuple[int, float, int]:
    """Print a lag in tokens: of the first, mean, p99."""
    first, mean, p99 = waits[0], sum(waits) / len(waits), sorted(waits)[int(len(waits) * 0.99)]
    print(f"{name:32} first {first:4}   mean {mean:6.1f}   p99 {p99:4}")
    return first, mean, p99


def hyperscan(rules: Sequence[Rule], parts: Sequence[bytes]) -> Callable[[], object] | None:
    """Return a run of Hyperscan's stream mode, without positions; None without its wheel."""
    try:
        engine: Any = importlib.import_module("hyperscan")
    except ImportError:
        return None
    every = [one for rule in rules for one in expressions(rule)]
    database = engine.Database(mode=engine.HS_MODE_STREAM)
    database.compile(expressions=every, ids=list(range(len(every))), elements=len(every), flags=[0] * len(every))
    database.scratch = engine.Scratch(database)
    found = list[tuple[int, ...]]()

    def matched(rule: int, start: int, end: int, flags: int, kept: list[tuple[int, ...]]) -> None:
        kept.append((rule, start, end, flags))

    def run() -> None:
        with database.stream(match_event_handler=matched, context=found) as stream:
            for part in parts:
                stream.scan(part)

    return run


def whole(compiled: Compiled, parts: Sequence[str]) -> None:
    tail = Tail(compiled)
    for part in parts:
        tail.feed(part)


class Nothing(FakeReply):
    def write(self, data: bytes) -> None:
        del data


def guard(compiled: Compiled, reply: FakeReply) -> StreamGuard:
    request = stream_request(api=Api.CHAT)
    came = Call(request=request, principal=principal(), timings=Timings(time.monotonic, 0.0))
    call = came.chosen(VERSION, Prepared(prompt_tokens=7)).admitted(request, DUE, Lease(opened_at=0.0, deadline_at=5.0))
    return StreamGuard(reply, call, Judgement(call, compiled, lambda *_: None, UNASKED))


def guarded(compiled: Compiled, events: Sequence[bytes]) -> None:
    under = guard(compiled, Nothing())
    for event in events:
        under.write(event)
    under.finish()


def unknown(compiled: Compiled, events: Sequence[bytes]) -> None:
    compiled.known_step.cache_clear()
    guarded(compiled, events)


async def costs(compiled: Compiled, parts: Sequence[str]) -> None:
    encoded = [part.encode() for part in parts]
    rules = [one.rule for one in compiled.rules]
    judge = Judge(rules)
    bare = hyperscan(rules, encoded)
    us = timed(bare) if bare else 0.0
    events = events_of(parts)
    writes = [b"".join(events[at : at + 8]) for at in range(0, len(events), 8)]
    for name, work in {
        "RE2 on each token alone": lambda: [judge.find(one) for one in encoded],
        "held back and judged": lambda: whole(compiled, parts),
        "in events, one a write": lambda: guarded(compiled, events),
        "one a write, tokens that are new": lambda: unknown(compiled, events),
        "in events, eight a write": lambda: guarded(compiled, writes),
        "the classifier of pack abuse": lambda: whole(classifier(), parts),
    }.items():
        ours = timed(work)
        print(f"{name:32} {ours:6.2f} us a token" + (f", {ours / us:.1f} times Hyperscan's {us:.2f}" if us else ""))


def events_of(parts: Sequence[str]) -> list[bytes]:
    choices = [{"index": 0, "delta": {"content": part}, "logprobs": None, "finish_reason": None} for part in parts]
    head = {"id": "chatcmpl-0123456789abcdef", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
    return [b"data: %b" % msgspec.json.encode({**head, "choices": [one]}) + sse.END for one in choices]


async def left(compiled: Compiled, parts: Sequence[str]) -> int:
    """Return how many characters of a stream leave."""
    reply = FakeReply(started=True)
    under = guard(compiled, reply)
    for event in events_of(parts):
        under.write(event)
    under.finish()
    said = [msgspec.json.decode(one)["choices"][0]["delta"] for one in sse.choices_in(reply.body)]
    return sum(len(one.get("content", "")) for one in said)


def leaks(prose: Sequence[str]) -> None:
    """Print what leaves of a key that stands in a stream, and what a stream without one waits for, beside NeMo's."""
    compiled = Compiled(strictest([shipped.pack("secrets")]), Where.OUTPUT)
    places = [_chance.randrange(TOKENS // 2) for _ in range(STREAMS)]
    streams = [[*prose[:at], *tokens(f" {KEY} "), *prose[at : TOKENS // 2]] for at in places]
    begins = [len("".join(prose[:at])) + 1 for at in places]
    patterns = [rule.regex for rule in shipped.pack("secrets").rules if rule.regex]
    python, program = environment("peers", "nemo") / "bin/python", Path(__file__).with_name("filters_peer.py")
    asked = json.dumps({"patterns": patterns, "streams": [list(prose), *streams]})
    told = subprocess.run([python, program], input=asked, check=True, stdout=subprocess.PIPE, text=True).stdout
    ways = {f"NeMo Guardrails, {way}": each for way, each in json.loads(told).items()}
    ours = [uvloop.run(left(compiled, one)) for one in streams]
    ways["by what may still match"] = [(held(compiled, prose), 0), *(((), end) for end in ours)]
    print(f"\n{STREAMS} streams of prose with a key, pack secrets")
    for name, ((waits, _), *ends) in ways.items():
        row(name, waits)
        out = [min(max(end - begin, 0), len(KEY)) for begin, (_, end) in zip(begins, ends, strict=True)]
        whole, part = out.count(len(KEY)), sum(0 < one < len(KEY) for one in out)
        print(f"{'':32} left: {whole} keys whole, {part} in part, {sum(out)} characters")


def main() -> int:
    compiled, failed = policy(), False
    for name, parts in texts().items():
        print(f"\n{name}: {len(parts)} tokens, {len(compiled.rules)} rules and {PHRASES} phrases")
        uvloop.run(costs(compiled, parts))
        first, mean, p99 = row("by what may still match", held(compiled, parts))
        failed |= first > MOST_FIRST or mean > MOST_MEAN or p99 > MOST_P99
        judged = classifier()
        first, _, _ = row("by sentence (pack abuse)", held(judged, parts))
        failed |= first > MOST_FIRST_OF_SENTENCE
        row("window of 32", windowed(32))
        row("chunks of 200", chunked(200))
        row("whole answer", chunked(TOKENS))
    if "--peers" in sys.argv[1:]:
        leaks(texts()["prose"])
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
