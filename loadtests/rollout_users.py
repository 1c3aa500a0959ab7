"""Twenty people who use one alias: each asks, reads, thinks and asks again; their answers, and the version of each."""

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import httpx

USERS = 20
THINK_S = 8.0
WARM_S = 10.0
WORDS = "river stone lantern harbour quiet engine copper meadow signal winter paper orchard".split()
SPREAD = 0.9
"""Of the logarithm of a prompt's words, about what public traces of chats have."""


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What they saw: answers by version, errors by status, and streams that broke off."""

    by_version: Counter[str]
    by_status: Counter[int]
    broken: int

    @property
    def errors(self) -> int:
        """Refusals and failures; a caller's own too long prompt is none for the version that has said so always."""
        return sum(count for status, count in self.by_status.items() if status != httpx.codes.OK)


@dataclass
class Users:
    """They begin when entered, and end when left."""

    url: str
    keys: Sequence[str]
    """Of their tenants, who have as many of them each."""
    alias: str
    _answers: list[tuple[float, str, int, bool]] = field(default_factory=list)
    _since: float = 0.0
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(60.0)

    def settle(self) -> None:
        """Wait until the incumbent has been asked for a while."""
        time.sleep(WARM_S)

    def begin(self) -> None:
        self._since = time.time()

    def sent(self) -> list[tuple[float, str]]:
        """Return when each answered request was sent (Unix seconds), and which version answered."""
        return [(at, version) for at, version, _, _ in self._answers if at >= self._since]

    def heard(self) -> Heard:
        """Return what was heard since ``begin``."""
        mine = [one for one in self._answers if one[0] >= self._since]
        return Heard(
            by_version=Counter(version for _, version, status, _ in mine if status == httpx.codes.OK),
            by_status=Counter(status for _, _, status, _ in mine),
            broken=sum(is_broken for *_, is_broken in mine),
        )

    async def _run(self) -> None:
        limits = httpx.Limits(max_connections=2 * USERS)
        async with httpx.AsyncClient(timeout=60, limits=limits, trust_env=False) as http, asyncio.TaskGroup() as group:
            for number in range(USERS):
                group.create_task(self._user(http, number))

    async def _user(self, http: httpx.AsyncClient, number: int) -> None:
        chance = random.Random(number)
        await asyncio.sleep(chance.random() * THINK_S)
        while not self._stop.is_set():
            await self._ask(http, number, chance)
            await asyncio.sleep(chance.expovariate(1 / THINK_S))

    async def _ask(self, http: httpx.AsyncClient, number: int, chance: random.Random) -> None:
        words = round(min(350.0, max(5.0, chance.lognormvariate(4.0, SPREAD))))
        stream = chance.random() < 2 / 3
        body = {
            "model": self.alias,
            "user": f"user-{number}",
            "messages": [{"role": "user", "content": f"{chance.random()} {' '.join(chance.choices(WORDS, k=words))}"}],
            "max_tokens": chance.randint(8, 32),
            "stream": stream,
        }
        at, version, status, is_broken = time.time(), "", 0, False
        try:
            headers = {"authorization": f"Bearer {self.keys[number % len(self.keys)]}"}
            async with http.stream("POST", f"{self.url}/v1/chat/completions", json=body, headers=headers) as answer:
                status, version = answer.status_code, answer.headers.get("x-penstock-version", "")
                text = (await answer.aread()).decode()
                is_broken = stream and status == httpx.codes.OK and "data: [DONE]" not in text
        except httpx.TransportError:
            is_broken = True
        self._answers.append((at, version, status, is_broken))
