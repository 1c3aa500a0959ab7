"""A gateway before toy engines, random callers with every kind of end, and the ledger beside the gates' counts."""

import asyncio
import hashlib
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from penstock.connectors.spool.segment import Closed, lines
from penstock.domain.fleet.table import Route, RoutingTable, Share, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import Alias, TenantId, VersionId, WorkerId
from penstock.domain.models.model import Task
from penstock.domain.money import MicroUsd, Price
from penstock.domain.outcome import Outcome
from penstock.domain.tenancy.keys import Purpose, derive, mint
from penstock.domain.tenancy.ledger import LedgerRow
from penstock.domain.tenancy.tenant import KeyRing, Plan, Tenant
from tests.support.gateways.process import NO_PACKS, PLATFORM_KEY, TEMPLATE, GatewayProcess, Home, started
from tests.support.models import tokenizers
from tests.support.patience import patient
from tests.support.samples.calls import VERSION

EACH = Price(
    prompt_per_mtok=MicroUsd(1_000_000), cached_per_mtok=MicroUsd(1_000_000), output_per_mtok=MicroUsd(1_000_000)
)
"""A micro-dollar a token."""
MODELS = {"toy": VersionId("toy@0123456789ab"), "vectors": VersionId("vectors@0123456789ab")}
PLANS = {"free": Plan(), "poor": Plan(spend_per_day=MicroUsd(40_000)), "tight": Plan(tokens_per_min=60_000)}
ENDS = ("stays", "leaves at once", "leaves at a head", "leaves in the middle", "runs out of time", "reads nothing")
STALL_S = 0.3


@dataclass(kw_only=True)
class Found:
    """What was compared, and how it ended."""

    requests: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    differences: list[str] = field(default_factory=list)
    inexact: int = 0


@dataclass(frozen=True)
class Site:
    home: Home
    gateway: GatewayProcess
    engine: "subprocess.Popen[str]"
    secrets: dict[str, str]
    truth: Path

    def rows(self) -> dict[str, LedgerRow]:
        """Return the ledger's rows as the gateway wrote them."""
        files = sorted((self.home.root / "spool").glob("*.jsonl"))
        return {line.row.request: line.row for file in files for line in lines(file) if isinstance(line, Closed)}

    def counted(self) -> dict[str, dict[str, int]]:
        """Return what the last attempt of each request took, as its gate had it in the end; None while it runs."""
        found: dict[str, dict[str, int]] = {}
        for line in self.truth.read_text().splitlines():
            told = json.loads(line)
            if "opened" in told:
                found[told["opened"]] = {}
            else:
                found[told.pop("closed")] = told
        return found


@contextmanager
def site(root: Path) -> Iterator[Site]:
    truth = root / "truth.jsonl"
    truth.touch()
    workers = [f"w{number}={MODELS['toy']}" for number in range(2)] + [f"e0={MODELS['vectors']}"]
    command = [sys.executable, "-m", "tests.support.engines.toy", *workers, "--key", PLATFORM_KEY.hex()]
    with subprocess.Popen([*command, "--truth", str(truth)], stdout=subprocess.PIPE, text=True) as engine:
        try:
            assert engine.stdout is not None
            secrets = _write(root, json.loads(engine.stdout.readline()))
            home = Home(root=root, key=secrets["free"])
            with started(home, PENSTOCK_STREAM_STALL_S=str(STALL_S), PENSTOCK_STREAM_BUFFER_BYTES="65536") as gateway:
                yield Site(home, gateway, engine, secrets, truth)
        finally:
            engine.kill()


def _write(root: Path, addresses: dict[str, str]) -> dict[str, str]:
    blob = tokenizers.small()
    sha256, pepper = hashlib.sha256(blob).hexdigest(), derive(PLATFORM_KEY, Purpose.PEPPER)
    minted = {name: mint(TenantId(name), pepper=pepper, now=0.0) for name in PLANS}
    entries = [WorkerEntry(id=WorkerId(w), url=url, state=WorkerState.READY) for w, url in addresses.items()]
    plain = replace(VERSION, tokenizer_sha256=sha256, chat_template=TEMPLATE, price=EACH)
    toy = replace(plain, id=MODELS["toy"], workers=tuple(one for one in entries if one.id.startswith("w")))
    vectors = replace(plain, id=MODELS["vectors"], task=Task.EMBED, workers=tuple(set(entries) - set(toy.workers)))
    routes = [Route(alias=Alias(n), shares=(Share(version=v, weight=10_000),)) for n, v in MODELS.items()]
    table = RoutingTable(number=3, made_at=0.0, routes=tuple(routes), versions=(toy, vectors))
    tenants = tuple(Tenant(id=TenantId(name), name=name, plan=plan) for name, plan in PLANS.items())
    ring = KeyRing(keys=tuple(key for _, key in minted.values()), tenants=tenants)
    files = {
        "platform.key": PLATFORM_KEY.hex().encode(),
        f"artifacts/blobs/{sha256}": blob,
        "run/gateway/table.json": msgspec.json.encode(table),
        "run/gateway/keys.json": msgspec.json.encode(ring),
        "run/gateway/packs.json": NO_PACKS,
    }
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
        (root / name).chmod(0o600)
    return {name: secret for name, (secret, _) in minted.items()}


def body_of(chance: random.Random) -> tuple[str, dict[str, Any]]:
    """Return a random request's path and body."""
    words = " ".join(["word"] * chance.randint(1, 200))
    size, stream = chance.choice((1, 5, 20, 60, 150)), chance.random() < 0.5
    talk = {"model": "toy", "messages": [{"role": "user", "content": words}], "stream": stream}
    path = chance.choice(("chat", "chat", "completions", "responses", "messages", "embeddings"))
    extra = {"seed": chance.choice((7, 7, 13))} if chance.random() < 0.25 and path in ("chat", "completions") else {}
    if path == "chat":
        n = chance.choice((1, 1, 1, 4))
        return "/v1/chat/completions", {**talk, "max_tokens": size, "n": n, **extra}
    if path == "completions":
        prompt = [words, "two words"] if chance.random() < 0.5 else words
        return "/v1/completions", {"model": "toy", "prompt": prompt, "max_tokens": size, "stream": stream, **extra}
    if path == "responses":
        return "/v1/responses", {"model": "toy", "input": words, "max_output_tokens": size, "stream": stream}
    if path == "messages":
        return "/v1/messages", {**talk, "max_tokens": size}
    encoding = chance.choice(("float", "base64"))
    return "/v1/embeddings", {"model": "vectors", "input": [words, words], "encoding_format": encoding}


async def call(url: str, secret: str, name: str, chance: random.Random) -> str:
    """Make one random request, end it in a random way, and return which."""
    path, body = body_of(chance)
    end = chance.choices(ENDS, (10, 1, 3, 5, 2, 1))[0]
    deadline = f"x-penstock-deadline-ms: {chance.choice((20, 60, 150))}\r\n" if end == "runs out of time" else ""
    raw = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {secret}\r\nx-request-id: {name}\r\n{deadline}"
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=2**12)
    with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
        writer.write(f"{head}connection: close\r\ncontent-length: {len(raw)}\r\n\r\n".encode() + raw)
        await writer.drain()
        async with asyncio.timeout(patient(30)):
            await _read(reader, end, chance)
    writer.transport.abort()
    return end


async def _read(reader: asyncio.StreamReader, end: str, chance: random.Random) -> None:
    if end == "leaves at once":
        await asyncio.sleep(chance.choice((0, 0.002, 0.01)))
    elif end == "leaves at a head":
        await reader.readline()
    elif end == "leaves in the middle":
        with suppress(TimeoutError):
            async with asyncio.timeout(chance.uniform(0.01, 0.3)):
                await reader.read(-1)
    elif end == "reads nothing":
        await asyncio.sleep(6 * STALL_S)
    else:
        await reader.read(-1)


async def run(where: Site, requests: int, seed: int, at_once: int = 24) -> Found:
    """Make requests, then compare the ledger with the gates' counts, row by row."""
    found, chance, room = Found(), random.Random(seed), asyncio.Semaphore(at_once)

    async def one(number: int) -> None:
        async with room:
            own = random.Random(f"{seed}-{number}")
            tenant = chance.choices(tuple(PLANS), (8, 1, 1))[0]
            found.ends[await call(where.gateway.url, where.secrets[tenant], f"r{seed}-{number}", own)] += 1

    await asyncio.gather(*(one(number) for number in range(requests)))
    counted, rows = where.counted(), where.rows()
    for _ in range(100):
        await asyncio.sleep(0.1)
        counted, rows = where.counted(), where.rows()
        if all(counted.values()) and counted.keys() <= rows.keys():
            break
    compare(found, rows, counted)
    return found


def compare(found: Found, rows: dict[str, LedgerRow], counted: dict[str, dict[str, int]]) -> None:
    """Note each row that differs from the count (or from nothing, if an engine failed first), and requests without
    a row.
    """
    for name, row in rows.items():
        took = counted.get(name) or {}
        ours = (row.prompt_tokens, row.cached_tokens, row.output_tokens)
        gates = tuple(int(took.get(f"{what}_tokens", 0)) for what in ("prompt", "cached", "output"))
        is_free = row.outcome == Outcome.ENGINE_ERROR and not any(ours)  # it failed before a byte of its answer
        if ours != gates and not is_free:
            found.differences.append(f"{name} {row.api} {row.outcome}: row {ours}, gate {gates}, exact {row.exact}")
        found.outcomes[row.outcome] += 1
        found.tokens += sum(gates[::2])
        found.inexact += not row.exact
    found.differences += [f"{name}: no row" for name in counted.keys() - rows.keys()]
    found.requests = len(rows)
