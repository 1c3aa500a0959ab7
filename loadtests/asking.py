"""One streamed, timed chat request whose answer has exactly the wanted length."""

import json
import math
import random
import time
from dataclasses import dataclass, field

import httpx

from loadtests.sides import Side
from loadtests.verdict import figures

WORDS = "river stone lantern harbour quiet engine copper meadow signal winter paper orchard".split()
LIMITS = httpx.Limits(max_connections=2000, max_keepalive_connections=500)


@dataclass(frozen=True, kw_only=True)
class Habit:
    """A tenant's requests: words in the prompt (from, to), tokens in the answer, the deadline in seconds."""

    tenant: str
    words: tuple[int, int]
    tokens: int
    deadline_s: float = 60.0
    streams_of_ten: int = 10
    """The others ask for an answer that comes as a whole."""
    callers: int = 0
    """So many ask one request after another, instead of at random."""


@dataclass
class Seen:
    """What came of it: seconds to the first token and to the last, and what was refused or broke, by its status.

    ``whole_at`` are the moments, of ``time.perf_counter``, at which whole answers ended.
    """

    first_s: list[float] = field(default_factory=list)
    whole_s: list[float] = field(default_factory=list)
    whole_at: list[float] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)

    def refuse(self, why: str) -> None:
        """Count a request that got no whole answer."""
        self.refused[why] = self.refused.get(why, 0) + 1

    def add(self, other: "Seen") -> None:
        self.first_s += other.first_s
        self.whole_s += other.whole_s
        self.whole_at += other.whole_at
        for why, times in other.refused.items():
            self.refused[why] = self.refused.get(why, 0) + times


def quantile(values: list[float], q: float) -> float:
    """Return a quantile; not a number without values."""
    found = figures.quantile(values, q)
    return math.nan if found is None else found


def client() -> httpx.AsyncClient:
    """Return a client that waits as long as its requests do."""
    return httpx.AsyncClient(timeout=None, limits=LIMITS)  # noqa: S113  each request has its own deadline


async def ask(http: httpx.AsyncClient, side: Side, habit: Habit, chance: random.Random, seen: Seen) -> None:
    """Ask once; hang up at the deadline."""
    began = time.perf_counter()
    try:
        await _ask(http, side, habit, chance, seen)
    except httpx.TransportError:
        seen.refuse("late" if time.perf_counter() - began >= habit.deadline_s else "broken")


async def _ask(http: httpx.AsyncClient, side: Side, habit: Habit, chance: random.Random, seen: Seen) -> None:
    words = " ".join(chance.choices(WORDS, k=chance.randint(*habit.words)))
    body = {
        "model": side.model,
        "messages": [{"role": "user", "content": f"{chance.random()} {words}"}],
        "max_tokens": habit.tokens,
        "stream": chance.randrange(10) < habit.streams_of_ten,
        "ignore_eos": True,
    }
    headers = {
        "authorization": f"Bearer {side.keys[habit.tenant]}",
        "x-penstock-deadline-ms": str(round(habit.deadline_s * 1000)),
    }
    began = time.perf_counter()
    url = f"{side.url}/v1/chat/completions"
    async with http.stream("POST", url, json=body, headers=headers, timeout=habit.deadline_s) as answer:
        if answer.status_code != httpx.codes.OK:
            seen.refuse(str(answer.status_code))
            return
        first_s, is_whole = 0.0, False
        async for line in answer.aiter_lines():
            if not first_s and _has_text(line):
                first_s = time.perf_counter() - began
                seen.first_s.append(first_s)
            is_whole = is_whole or line == "data: [DONE]" or line.startswith('{"id"')
    took_s = time.perf_counter() - began
    if is_whole and took_s <= habit.deadline_s:
        seen.whole_s.append(took_s)
        seen.whole_at.append(began + took_s)
    else:
        seen.refuse("late" if is_whole else "broken")


def _has_text(line: str) -> bool:
    if not line.startswith("data: {"):
        return False
    choices = json.loads(line[6:]).get("choices") or [{}]
    return bool(choices[0].get("delta", {}).get("content"))
