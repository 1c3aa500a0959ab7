"""Many clients, random faults, and then the books: clients, store, engines and ledger must agree.

A seed decides each client's requests, departures and returns, and each fault's time. A failure prints the seed and
every finding; ``HISTORY_SEEDS`` names others, or more of them for a longer search. Under odd seeds Redis is never lost:
then its meters and the ledger must agree to the last micro-dollar.
"""

import asyncio
import hashlib
import json
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from penstock.domain.money import MicroUsd
from penstock.domain.tenancy.tenant import Plan
from penstock.gateway.admission.reservations import HOLD_S
from tests.support.histories.record import Asked, Bounds, End, Fault, History, Hurt
from tests.support.histories.rules import check, name_of
from tests.support.histories.site import Customer, Site, comes_true, site

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
    """One request to come: its time after the start, its client, its answer's length, and its client's patience."""

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
    def __init__(self) -> None:
        self.text = ""
        self.admitted: bool | None = None
        self._unary_tokens = 0

    @property
    def tokens(self) -> int:
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


pytestmark = [pytest.mark.integration, pytest.mark.slow]

SEEDS = [int(seed) for seed in os.environ.get("HISTORY_SEEDS", "1 2").split()]
GATEWAYS = 3
SPAN_S = 9.0
PER_S = 25.0
STEP_MS = 8.0
LATE_S = 2.5
"""How late a round of a gateway may be on a busy machine."""
REST_WITHIN_S = HOLD_S + 10.0
NEVER_LOST = {Fault.LIMITS_LOST}
AMPLE = MicroUsd(1_000_000)
PLANS = {
    "free": Plan(),
    "rate": Plan(requests_per_min=20),
    "slots": Plan(max_concurrent=2, max_streams=1),
    "money": Plan(spend_per_day=MicroUsd(3_000)),
    "all": Plan(max_concurrent=8, requests_per_min=600, tokens_per_min=60_000, spend_per_month=AMPLE),
}
ORGS = {"rich": Plan(spend_per_day=MicroUsd(8_000), max_concurrent=40), "plain": Plan(max_concurrent=30)}
ORG_OF = {"money": "rich", "all": "rich"}


def customers() -> tuple[Customer, ...]:
    return tuple(
        Customer(name=f"{kind}-{seed}", plan=plan, org=f"{org}-{seed}", org_plan=ORGS[org])
        for seed in SEEDS
        for kind, plan in PLANS.items()
        for org in [ORG_OF.get(kind, "plain")]
    )


@pytest.fixture(scope="module")
def town() -> Iterator[Site]:
    """Yield a site with tenants of its own for each seed."""
    # Not pytest's own folder: that is closed to the account of a Postgres that root starts.
    with (
        tempfile.TemporaryDirectory(prefix="penstock-history-", ignore_cleanup_errors=True) as folder,
        site(Path(folder), customers()) as running,
    ):
        yield running


@pytest.mark.parametrize("seed", [SEEDS[0], *(pytest.param(seed, marks=pytest.mark.drill) for seed in SEEDS[1:])])
def test_every_account_of_a_random_run_agrees(town: Site, seed: int) -> None:
    """Whatever was killed, frozen, filled, left and repeated: each request is billed once, and nothing stays held."""
    for engine in town.engines:
        engine.forget()
        engine.behave(step_ms=STEP_MS, delay_ms=40)
    while len(town.gateways) < GATEWAYS:
        town.start()
    began = time.time()
    asked, hurts = asyncio.run(storm(town, random.Random(seed), seed))
    history = History(bounds=Bounds(round_s=LATE_S, tokens_per_s=1e3 / STEP_MS, gateways=GATEWAYS), asked=asked)
    history.hurts, history.scopes = hurts, {name: town.scopes[name] for name in tenants(seed)}
    at_rest = comes_true(lambda: is_at_rest(town, asked, seed), REST_WITHIN_S)
    take_stock(town, history, began)
    findings = check(history)
    assert findings == [], told(town, seed, history, findings)
    assert at_rest, told(town, seed, history, ["it did not come to rest"])
    assert {one.end for one in asked} >= {End.WHOLE, End.REPLAYED, End.REFUSED, End.LEFT}
    assert {hurt.fault for hurt in hurts} == set(Fault) - (NEVER_LOST if seed % 2 else set())
    assert min(len(history.opened), len(history.settled), len(history.rows)) > len(asked) / 4


async def storm(town: Site, chance: random.Random, seed: int) -> tuple[list[Asked], list[Hurt]]:
    """Let clients ask and faults strike; a killed gateway has no successor, which would count its rows anew."""
    began = time.time() + 0.2
    wished = list(wishes(chance, tenants(seed), SPAN_S, PER_S))
    hurting = asyncio.create_task(faults(town, chance, began, exact=bool(seed % 2)))
    asked = await play(town, wished, began)
    return asked, await hurting


async def faults(town: Site, chance: random.Random, began: float, *, exact: bool) -> list[Hurt]:
    """Strike one after another, in random order, at random times."""

    async def kill(_: float) -> Hurt:
        return town.kill_gateway(chance.choice(sorted(town.gateways)))

    strikes: list[Callable[[float], Coroutine[None, None, Hurt]]] = [
        kill,
        town.freeze_limits,
        town.lose_ledger,
        town.fill_disk,
        *([] if exact else [town.lose_limits]),
    ]
    chance.shuffle(strikes)
    done: list[Hurt] = []
    await asyncio.sleep(max(0.0, began + 1.0 - time.time()))
    for strike in strikes:
        engine = chance.choice(town.engines)
        await asyncio.to_thread(engine.behave, mode="die_after_token", times=1, step_ms=STEP_MS, delay_ms=40)
        await asyncio.sleep(chance.uniform(0.3, 1.2))
        done.append(await strike(chance.uniform(0.5, 1.2)))
    return done


def tenants(seed: int) -> list[str]:
    return [f"{kind}-{seed}" for kind in PLANS]


def is_at_rest(town: Site, asked: list[Asked], seed: int) -> bool:
    """Tell whether no request runs, nothing is held, and each admitted request has its row."""
    if town.running() or town.in_flight() or any(town.redis.rest().held.values()):
        return False
    # Requests of the seeds before had the same names, and other tenants.
    rows = {name_of(row.request) for row in town.rows() if row.tenant in tenants(seed)}
    return all(one.name in rows for one in asked if one.admitted)


def take_stock(town: Site, history: History, began: float) -> None:
    """Write down what is there when all is over."""
    watch, ours = town.redis.watch, set(history.scopes)
    history.rows = [row for row in town.rows() if row.tenant in ours]
    history.made = town.made()
    history.opened = [one for one in watch.opened if one.at >= began]
    history.settled = [one for one in watch.settled if one.at >= began]
    history.counted = [one for one in watch.counted if one.at >= began]
    history.rest = replace(town.redis.rest(), running=town.running(), in_flight=town.in_flight())


def told(town: Site, seed: int, history: History, findings: list[str]) -> str:
    """Return the run's story, for the search of the cause."""
    ends = Counter(one.end for one in history.asked)
    hurts = [f"{hurt.fault} {hurt.at:.2f} to {hurt.until:.2f} {hurt.gateway}" for hurt in history.hurts]
    return "\n".join((f"seed {seed}: HISTORY_SEEDS={seed}", str(dict(ends)), *hurts, *findings[:40], *town.troubles()))
