"""Clients by chance: who asks what, when, through which gateway, and leaves or comes again; each tells what it saw."""

import asyncio
import hashlib
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import httpx

from tests.support.histories.record import Asked, End
from tests.support.histories.site import Site

CHAT = "/v1/chat/completions"
TOKEN = '"content":" the"'
LEAVING = 0.25
"""The share of clients that leave."""
LONG = 0.3
"""The share of streams that outgrow what is reserved for them."""
WITH_KEY = 0.15
"""The share of requests that come two or three times under one idempotency key."""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """One request to come: when after the start, by whom, how long its answer is, and how long its client waits."""

    name: str
    at_s: float
    tenant: str
    stream: bool
    tokens: int
    lucky: float
    """Picks the gateway among those that live when it is sent."""
    patience_s: float = 30.0
    once: str = ""


def wishes(chance: random.Random, tenants: list[str], span_s: float, per_s: float) -> Iterator[Wish]:
    """Yield Poisson arrivals, those with an idempotency key several times."""
    at_s, number = 0.0, 0
    while (at_s := at_s + chance.expovariate(per_s)) < span_s:
        stream = chance.random() < 0.7
        is_long = stream and chance.random() < LONG
        wish = Wish(
            name=f"r{number:05}",
            at_s=at_s,
            tenant=chance.choice(tenants),
            stream=stream,
            tokens=chance.randrange(300, 600) if is_long else chance.randrange(1, 50),
            lucky=chance.random(),
            patience_s=chance.uniform(0.0, 0.5) if chance.random() < LEAVING else 30.0,
        )
        number += 1
        if chance.random() >= WITH_KEY:
            yield wish
            continue
        for again in range(chance.randrange(2, 4)):
            later = replace(wish, name=f"{wish.name}.{again}", once=f"once-{number}", lucky=chance.random())
            yield replace(later, at_s=at_s + again * chance.choice((0.0, 0.05, 1.0)))


async def play(site: Site, wished: list[Wish], began: float) -> list[Asked]:
    """Send each at its time and return what the clients saw."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(limits=limits, timeout=30, trust_env=False) as http, asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(_one(site, http, wish, began)) for wish in wished]
    return [task.result() for task in asked]


async def _one(site: Site, http: httpx.AsyncClient, wish: Wish, began: float) -> Asked:
    await asyncio.sleep(max(0.0, began + wish.at_s - time.time()))
    names = sorted(site.gateways)
    gateway = names[int(wish.lucky * len(names))]
    seen = _Seen()
    at, end = time.time(), End.CUT
    try:
        async with asyncio.timeout(wish.patience_s):
            end = await seen.read(http, f"{site.gateways[gateway].url}{CHAT}", site.secrets[wish.tenant], wish)
    except TimeoutError:
        end = End.LEFT
    except httpx.HTTPError:
        end = End.CUT
    return Asked(
        name=wish.name,
        tenant=wish.tenant,
        gateway=gateway,
        began_at=at,
        ended_at=time.time(),
        end=end,
        admitted=seen.admitted,
        tokens=seen.tokens,
        answer=hashlib.sha256(seen.text.encode()).hexdigest(),
        once=wish.once,
    )


class _Seen:
    """What one client saw so far."""

    def __init__(self) -> None:
        self.text = ""
        self.admitted: bool | None = None
        self._unary_tokens = 0

    @property
    def tokens(self) -> int:
        """Tokens that came."""
        return self._unary_tokens or self.text.count(TOKEN)

    async def read(self, http: httpx.AsyncClient, url: str, secret: str, wish: Wish) -> End:
        """Send the request and read the answer to its end."""
        head = {"authorization": f"Bearer {secret}", "x-request-id": wish.name}
        if wish.once:
            head["idempotency-key"] = wish.once
        turn = {"role": "user", "content": "hello"}
        body = {"model": "toy", "messages": [turn], "max_tokens": wish.tokens, "stream": wish.stream}
        async with http.stream("POST", url, json=body, headers=head) as answer:
            is_replay = "idempotency-replayed" in answer.headers
            self.admitted = not is_replay and "admission;" in answer.headers.get("server-timing", "")
            async for piece in answer.aiter_text():
                self.text += piece
        return self._end(answer.status_code, wish, is_replay=is_replay)

    def _end(self, status: int, wish: Wish, *, is_replay: bool) -> End:
        if status != httpx.codes.OK:
            return End.FAILED if self.admitted else End.REFUSED
        if wish.stream and not self.text.endswith("data: [DONE]\n\n"):
            return End.FAILED if '"error"' in self.text else End.CUT
        if not wish.stream:
            self._unary_tokens = int(json.loads(self.text)["usage"]["completion_tokens"])
        return End.REPLAYED if is_replay else End.WHOLE
