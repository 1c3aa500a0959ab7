"""Traffic of all kinds at once, so that every series of a platform has something to say."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any

import httpx

from tests.support.platforms.local import Platform

CHAT, EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"
LONG = "The river runs to the sea, and the mill stands by the river. " * 12
"""Several blocks of one prefix, for its cache."""
PLANS: dict[str, dict[str, object]] = {
    "heavy": {"weight": 3, "priority": "interactive"},
    "light": {"weight": 1},
    "capped": {"requests_per_min": 2},
    "broke": {"spend_per_day": 1},  # micro-dollars
    "leaver": {},
    "hasty": {"priority": "batch"},
}
PAUSE_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    http: httpx.AsyncClient
    name: str

    async def chat(self, *, tokens: int, headers: dict[str, str] | None = None, stream: bool = True) -> None:
        """Ask for exactly this number of tokens, and read them all."""
        body = {
            "model": "smollm2",
            "messages": [{"role": "user", "content": f"{LONG} {self.name}"}],
            "max_tokens": tokens,
            "ignore_eos": True,
            "stream": stream,
        }
        async with self.http.stream("POST", CHAT, json=body, headers=headers or {}) as answer:
            async for _ in answer.aiter_lines():
                pass

    async def leave(self) -> None:
        """Open a stream, and go at its first line."""
        body = {"model": "smollm2", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 200, "stream": True}
        async with self.http.stream("POST", CHAT, json={**body, "ignore_eos": True}) as answer:
            async for _ in answer.aiter_lines():
                return

    async def embed(self) -> None:
        await self.http.post(EMBEDDINGS, json={"model": "minilm", "input": LONG})

    async def err(self) -> None:
        ask: dict[str, Any] = {"model": "smollm2", "messages": [{"role": "user", "content": "Hi"}]}
        await self.http.post(CHAT, content=b"{", headers={"content-type": "application/json"})
        await self.http.post(CHAT, json=ask, headers={"authorization": "Bearer psk_nobody"})
        await self.http.post(CHAT, json={**ask, "model": "gpt-9"})
        await self.http.post(CHAT, json={**ask, "top_p": 7})
        await self.http.post(CHAT, json={**ask, "messages": [{"role": "user", "content": LONG * 40}]})


def keys(platform: Platform) -> dict[str, str]:
    """Make the tenants, and return a key of each."""
    for tenant, plan in PLANS.items():
        platform.act("POST", "/tenants", {"id": tenant, "plan": plan})
    minted = {tenant: platform.act("POST", "/keys", {"tenant": tenant, "role": "infer"}) for tenant in PLANS}
    return {tenant: str(answer["secret"]) for tenant, answer in minted.items()}


async def run(platform: Platform, secrets: dict[str, str], *, seconds: float) -> None:
    """Let every tenant do its acts again and again for these seconds."""
    until = time.monotonic() + seconds
    async with AsyncExitStack() as stack:
        caller = {
            name: Caller(
                name=name,
                http=await stack.enter_async_context(
                    httpx.AsyncClient(
                        base_url=platform.url,
                        headers={"authorization": f"Bearer {secret}"},
                        timeout=60,
                        trust_env=False,
                    )
                ),
            )
            for name, secret in secrets.items()
        }
        habits: list[Callable[[], Awaitable[None]]] = [
            *[lambda: caller["heavy"].chat(tokens=32)] * 4,
            *[lambda: caller["light"].chat(tokens=32)] * 2,
            lambda: caller["light"].chat(tokens=8, stream=False, headers={"idempotency-key": "one"}),
            caller["light"].embed,
            lambda: caller["capped"].chat(tokens=4),
            lambda: caller["broke"].chat(tokens=64),
            caller["leaver"].leave,
            caller["heavy"].err,
            *[lambda: caller["hasty"].chat(tokens=100, headers={"x-penstock-deadline-ms": "1500"})] * 3,
        ]
        await asyncio.gather(*(_again(habit, until) for habit in habits))


async def _again(habit: Callable[[], Awaitable[None]], until: float) -> None:
    while time.monotonic() < until:
        with suppress(httpx.HTTPError):  # a stream that breaks is part of it
            await habit()
        await asyncio.sleep(PAUSE_S)
