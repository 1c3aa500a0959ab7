"""Planted matches against a gateway process, judged at the client's socket: no character of one may arrive.

Run: ``make fuzz-filters`` (``STREAMS=10000``, ``SEED=1``). Each case is asked as a stream and as a whole answer; both
are compared with the whole text judged at once. Ends with 1 if a character leaked, a verdict or an end is wrong.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from penstock.filters import shipped
from penstock.filters.hold import Compiled
from penstock.filters.pack import Action, Pack, Rule, Where, strictest
from penstock.filters.whole import spans
from tests.support.engines.planted import Case, PlantedEngine
from tests.support.gateways.process import GatewayProcess, book, prepare, started

AT_ONCE = 16
CHAT, COMPLETIONS, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"
_OWN = Rule(name="own", action=Action.BLOCK, category="c", phrases=("Operation Bluebird 77", "Übergabe 😀 xk"))
PACKS = (
    shipped.pack("secrets"),
    shipped.pack("pii"),
    Pack(id="own", version=1, rules=(_OWN,)),
)
COMPILED = Compiled(strictest(PACKS), Where.OUTPUT)
PLANTED = (
    "AKIAIOSFODNN7EXAMPLE",
    "\u200bAK\u200bIAIOSFODNN7\u2060EXAMPLE",
    "\uff21\uff2b\uff29\uff21IOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc",
    "-----BEGIN RSA PRIVATE KEY-----",
    "psk_q7Wd2Zx9Lk4T_Rf8vN3mYcB6hJ1pQs5Gt0UaEwXoKiDzVyCbNmPlHgFrTqSuRf",
    "operation\nbluebird 77",
    "OPERATION BLUEBIRD 77",
    "\u00fcbergabe \U0001f600 XK",
    "jane.doe@example.co.uk",
    "4111 1111 1111 1111",
    "DE89 3704 0044 0532 0130 00",
    "+49 30 901820-0",
    "",
    "harmless",
)
BEFORE = ("", "It is ", 'say "', "so:\n", "\U0001f600 ", "\\n", "a, b. ", "path C:\\new\\", "\ufeff")
AFTER = ("", " and more.", '" ok', "\nnext", ", x", "\\nmore", " \U0001f600")
ESCAPES = {"@": "\\u0040", "A": "\\u0041", "e": "\\u0065", "-": "\\u002d", "\U0001f600": "\\ud83d\\ude00"}
_PIECE = 15
"""Characters of a match that stand nowhere else: more than an escaped emoji has."""


class Texts(NamedTuple):
    """What arrived: each choice's texts by kind, whether a filter ended it, and whether the end is the API's own."""

    said: dict[tuple[int, str], str]
    is_filtered: bool
    is_proper: bool


@dataclass
class Count:
    streams: int = 0
    filtered: int = 0
    masked: int = 0
    leaked: int = 0
    """Characters of matches that arrived."""
    faults: list[str] = field(default_factory=list)
    apis: Counter[str] = field(default_factory=Counter)


# -- cases -----------------------------------------------------------------------------------


def case_of(number: int, seed: int) -> Case:
    chance = random.Random(seed << 32 | number)
    path = chance.choice((CHAT, CHAT, COMPLETIONS, RESPONSES, MESSAGES))
    count = chance.choice((1, 1, 2, 4)) if path.endswith("completions") else 1
    kinds = {COMPLETIONS: ("text",)}.get(path) or chance.choice(
        (("content",), ("reasoning", "content"), ("content", "call"), ("reasoning", "content", "call"), ("call",))
    )
    guilty = chance.randrange(count), chance.choice(kinds)
    said = tuple(
        {kind: _cut(_text(chance, kind, is_guilty=(at, kind) == guilty), chance, number) for kind in kinds}
        for at in range(count)
    )
    return Case(
        number=number,
        path=path,
        said=said,
        with_tokens=chance.randrange(3) == 0 and path.endswith("completions"),
        is_ascii=chance.choice((True, False)),
        cuts_bytes=chance.choice((True, False)),
    )


def _text(chance: random.Random, kind: str, *, is_guilty: bool) -> str:
    planted = chance.choice(PLANTED) if is_guilty else ""
    before, after = chance.choice(BEFORE), chance.choice(AFTER)
    if kind == "call":
        inner = before + planted + after
        said = "".join(
            ESCAPES[one] if one in ESCAPES and chance.randrange(5) == 0 else json.dumps(one, ensure_ascii=False)[1:-1]
            for one in inner
        )
        return f'{{"to": "{said}", "n": 1}}'
    text = before + planted + after
    return text or "fine"


def _cut(text: str, chance: random.Random, number: int) -> list[str]:
    """Cut at each character in turn, at every one, or anywhere."""
    how = chance.randrange(4)
    if how == 0:
        return list(text)
    if how == 1:
        at = number % len(text)
        return [part for part in (text[:at], text[at:]) if part]
    sizes = iter(lambda: chance.randint(1, 9), 0)
    pieces, at = list[str](), 0
    while at < len(text):
        size = next(sizes)
        pieces.append(text[at : at + size])
        at += size
    return pieces


def body_of(case: Case, *, stream: bool) -> dict[str, Any]:
    prompt = f"case {case.number}."
    body: dict[str, Any] = {"model": "toy", "stream": stream}
    if case.path == RESPONSES:
        return {**body, "input": prompt, "max_output_tokens": 64, "store": False}
    if case.path == COMPLETIONS:
        body |= {"prompt": prompt}
    else:
        body |= {"messages": [{"role": "user", "content": prompt}]}
    body["max_tokens"] = 64
    if case.path == MESSAGES:
        return body
    if case.with_tokens:
        body |= {"logprobs": 2} if case.path == COMPLETIONS else {"logprobs": True, "top_logprobs": 2}
    usage = {"stream_options": {"include_usage": True}} if stream and case.number % 2 else {}
    return {**body, "n": len(case.said), **usage}


# -- answers ---------------------------------------------------------------------------------


def of_stream(case: Case, raw: bytes) -> Texts:
    said: dict[tuple[int, str], str] = {}
    events = [line[6:] for line in raw.decode().split("\n") if line.startswith("data: ")]
    bodies = [json.loads(event) for event in events if event != "[DONE]"]
    ends = list[Any]()
    for one in bodies:
        for key, text in _added(case.path, one):
            said[key] = said.get(key, "") + text
        ends += _ends_of(one)
    is_filtered = any(end in ("content_filter", "refusal", "incomplete") for end in ends)
    last = {CHAT: "[DONE]", COMPLETIONS: "[DONE]"}.get(case.path)
    if last is not None:
        is_proper = events[-1:] == [last] and len(ends) == len(case.said)
    elif case.path == MESSAGES:
        kinds = [one["type"] for one in bodies]
        is_balanced = kinds.count("content_block_start") == kinds.count("content_block_stop")
        is_proper = kinds[-1] == "message_stop" and len(ends) == 1 and is_balanced
    else:
        numbers = [one["sequence_number"] for one in bodies]
        is_proper = len(ends) == 1 and numbers == list(range(len(numbers)))
    return Texts(said, is_filtered, is_proper)


def _ends_of(one: Mapping[str, Any]) -> list[Any]:
    if one.get("type") in ("response.completed", "response.incomplete"):
        return [one["response"]["status"]]
    if one.get("type") == "message_delta":
        return [one["delta"]["stop_reason"]]
    return [choice["finish_reason"] for choice in one.get("choices", ()) if choice["finish_reason"]]


def _added(path: str, one: Mapping[str, Any]) -> Iterator[tuple[tuple[int, str], str]]:
    if path == RESPONSES:
        name = {"reasoning_text": "reasoning", "output_text": "content", "function_call_arguments": "call"}
        kind = one["type"].removeprefix("response.")
        if kind.endswith(".delta"):
            yield (0, name[kind.removesuffix(".delta")]), one["delta"]
    elif path == MESSAGES:
        if one["type"] == "content_block_delta":
            name = {"thinking": "reasoning", "text": "content", "partial_json": "call"}
            yield from (((0, name[key]), text) for key, text in one["delta"].items() if key in name)
    else:
        for choice in one["choices"]:
            yield from _of_part(choice["index"], {**choice, **choice.get("delta", {})})


def _of_part(at: int, part: Mapping[str, Any]) -> Iterator[tuple[tuple[int, str], str]]:
    for kind in ("reasoning", "content", "text"):
        if part.get(kind):
            yield (at, kind), part[kind]
    for call in part.get("tool_calls") or ():
        yield (at, "call"), call["function"].get("arguments") or ""


def of_whole(case: Case, raw: bytes) -> Texts:
    body, said = json.loads(raw), dict[tuple[int, str], str]()
    if case.path == RESPONSES:
        for item in body["output"]:
            kind = {"message": "content", "function_call": "call"}.get(item["type"], "reasoning")
            said[0, kind] = item["arguments"] if kind == "call" else item["content"][0]["text"]
        return Texts(said, body["status"] == "incomplete", is_proper=True)
    if case.path == MESSAGES:
        for block in body["content"]:
            kind = {"text": "content", "tool_use": "call"}.get(block["type"], "reasoning")
            said[0, kind] = "" if kind == "call" else block.get("text") or block.get("thinking") or ""
        return Texts(said, body["stop_reason"] == "refusal", is_proper=True)
    for choice in body["choices"]:
        said |= dict(_of_part(choice["index"], {**choice, **choice.get("message", {})}))
    ends = [choice["finish_reason"] for choice in body["choices"]]
    return Texts(said, "content_filter" in ends, is_proper=True)


# -- the verdict -----------------------------------------------------------------------------


class Expected(NamedTuple):
    shown: str
    matched: frozenset[int]
    blocked_at: int | None


def expected(text: str, kind: str) -> Expected:
    """Judge a whole text at once."""
    shown, matched, blocked = list(text), set[int](), list[int]()
    for hit in spans(COMPILED.judge, text):
        matched.update(range(hit.start, hit.end))
        if kind == "call" or COMPILED.rules[hit.rule].rule.action is Action.BLOCK:
            blocked.append(hit.start)
        else:
            shown[hit.start : hit.end] = "*" * (hit.end - hit.start)
    return Expected("".join(shown), frozenset(matched), min(blocked, default=None))


def check(case: Case, got: Texts, raw: bytes, count: Count, how: str) -> None:
    wanted = {(at, kind): expected(case.whole(at, kind), kind) for at, said in enumerate(case.said) for kind in said}
    blocks = any(one.blocked_at is not None for one in wanted.values())
    faults = list[str]()
    for (at, kind), one in wanted.items():
        text, said = case.whole(at, kind), got.said.get((at, kind), "")
        until = len(said)
        leaked = sum(1 for place in one.matched if place < until and said[place] == text[place] and text[place] != "*")
        count.leaked += leaked
        if leaked:
            faults.append(f"{leaked} characters of a match in {kind}")
        if said != one.shown[:until] or (one.blocked_at is not None and until > one.blocked_at):
            faults.append(f"{kind} differs")
        if not blocks and said != one.shown and not (case.path == MESSAGES and kind == "call" and how == "whole"):
            faults.append(f"{kind} is not whole")
        secret = text[min(one.matched) : max(one.matched) + 1] if one.matched else ""
        if len(secret) >= _PIECE and any(
            secret[start : start + _PIECE] in raw.decode() for start in range(len(secret) - _PIECE + 1)
        ):
            faults.append(f"a piece of a match of {kind} is in the bytes: {secret!r}")
    if got.is_filtered != blocks:
        faults.append("another verdict than the whole text's")
    if not got.is_proper:
        faults.append("no proper end")
    count.filtered += got.is_filtered
    count.masked += any("*" in one.shown for one in wanted.values()) and not blocks
    count.faults += [f"{how} {case.number} {case.path}: {fault}" for fault in faults]


async def _ask(client: httpx.AsyncClient, case: Case, count: Count) -> None:
    for stream in (True, False):
        answer = await client.post(case.path, json=body_of(case, stream=stream))
        how = "stream" if stream else "whole"
        if answer.status_code != httpx.codes.OK:
            count.faults.append(f"{how} {case.number} {case.path}: {answer.status_code} {answer.text[:200]}")
            continue
        got = (of_stream if stream else of_whole)(case, answer.content)
        count.streams += stream
        count.apis[case.path] += stream
        check(case, got, answer.content, count, how)


async def run(gateway: GatewayProcess, engine: PlantedEngine, numbers: range, seed: int) -> Count:
    count, left = Count(), iter(numbers)
    headers = {"authorization": f"Bearer {gateway.home.key}"}
    async with httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=60, trust_env=False) as client:

        async def worker() -> None:
            for number in left:
                engine.cases[number] = case_of(number, seed)
                await _ask(client, engine.cases[number], count)
                del engine.cases[number]

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(worker())
    return count


async def fuzzed(root: Path, numbers: range, seed: int) -> Count:
    """Start an engine and a gateway under all packs, and ask these cases."""
    async with PlantedEngine() as engine:
        home = prepare(root, engine.url)
        (root / "run/gateway/packs.json").write_bytes(book(PACKS, [pack.id for pack in PACKS]))
        running = started(home)
        gateway = await asyncio.to_thread(running.__enter__)
        try:
            return await run(gateway, engine, numbers, seed)
        finally:
            await asyncio.to_thread(running.__exit__, None, None, None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        began = time.monotonic()
        count = asyncio.run(fuzzed(Path(root), range(asked.streams), asked.seed))
    print("\n".join(count.faults[:20]))
    print(dict(count.apis))
    print(f"{count.leaked} characters leaked, {len(count.faults)} faults, {count.streams} streams, each also whole;")
    took_s = time.monotonic() - began
    print(f"{count.filtered} answers filtered, {count.masked} masked, in {took_s:.0f} s (seed {asked.seed})")
    return 1 if count.faults or count.leaked or count.streams < asked.streams else 0


if __name__ == "__main__":
    sys.exit(main())
