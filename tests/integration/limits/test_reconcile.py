"""Counters and ledger agree, whatever happened to the counters; and a repeated request is charged once (A8, B6)."""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.tenancy import PostgresTenancy
from penstock.domain.money import MicroUsd
from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.keys import Purpose, derive, mint
from penstock.domain.tenancy.tenant import OPERATORS, Plan, Role, Tenant
from tests.support.gateways.process import PLATFORM_KEY
from tests.support.histories.site import Customer, Site, comes_true, site
from tests.support.patience import until
from tests.support.platforms import commands

pytestmark = pytest.mark.integration

AMPLE = Plan(spend_per_day=MicroUsd(1_000_000), spend_per_month=MicroUsd(9_000_000), max_concurrent=50)
TOKENS = 20
ASKED = 12
HICCUPS, HICCUP_S = 4, 0.6


@pytest.fixture(scope="module")
def town() -> Iterator[Site]:
    """Yield two gateways with a real Redis and Postgres."""
    # Not pytest's own folder: that is closed to the account of a Postgres that root starts.
    with tempfile.TemporaryDirectory(prefix="penstock-reconcile-", ignore_cleanup_errors=True) as folder:
        customers = tuple(
            Customer(name=name, plan=AMPLE, org="group", org_plan=AMPLE) for name in ("shop", "once", "hiccup")
        )
        with site(Path(folder), customers) as running:
            asyncio.run(add_operator(running))
            running.start()
            running.start()
            yield running


async def add_operator(town: Site) -> None:
    secret, key = mint(OPERATORS, pepper=derive(PLATFORM_KEY, Purpose.PEPPER), now=0.0, role=Role.ADMIN)
    async with Database(town.postgres.dsn, max_connections=1) as database:
        act = Act(who="platform", what="test.seed", target="operator", at=0.0)
        await PostgresTenancy(database).add_tenant(Tenant(id=OPERATORS, name="Operators"), act)
        await PostgresTenancy(database).add_key(key, act)
    (town.home.root / "admin.key").write_text(secret)


def environment(town: Site) -> dict[str, str]:
    ours = {"HOME": town.home.root, "DATABASE_URL": town.postgres.dsn, "LIMITS_URL": town.redis.url}
    return {**os.environ, "COLUMNS": "160", **{f"PENSTOCK_{name}": str(value) for name, value in ours.items()}}


@contextmanager
def controller(town: Site) -> Iterator[None]:
    """Run a controller, which operators' commands speak to."""
    address, log_file = town.home.root / "run/controller.addr", town.home.root / "controller.log"
    with log_file.open("wb") as log:
        command = [sys.executable, "-m", "penstock.cli", "controller"]
        process = subprocess.Popen(command, env=environment(town), stdout=log, stderr=log)
        try:
            until("the controller leads", lambda: address.exists() or process.poll() is not None)
            yield
        finally:
            process.kill()
            process.wait()
            sys.stdout.write(log_file.read_text())


def reconcile(town: Site, *arguments: str) -> tuple[int, str]:
    """Run the operators' command; return its exit code and what it printed."""
    done = commands.run(["usage", "reconcile", *arguments], environment(town))
    return done.returncode, done.stdout + done.stderr


def ask(town: Site, tenant: str, gateway: int = 0, **headers: str) -> httpx.Response:
    url = list(town.gateways.values())[gateway].url
    body = {"model": "toy", "messages": [{"role": "user", "content": "hello"}], "max_tokens": TOKENS}
    key = {"authorization": f"Bearer {town.secrets[tenant]}"}
    return httpx.post(f"{url}/v1/chat/completions", json=body, headers={**key, **headers}, trust_env=False)


def rows_of(town: Site, tenant: str) -> list[int]:
    """Return what each of a tenant's requests cost."""
    return [row.cost for row in town.rows() if row.tenant == tenant]


def has_rows(town: Site, tenant: str, count: int) -> bool:
    return len(rows_of(town, tenant)) == count


def counted(town: Site) -> dict[str, int]:
    return dict(town.redis.rest().spent)


def test_a_repeated_request_is_charged_once(town: Site) -> None:
    """Three times the same key through both gateways: one row, one charge, and the metrics tell replays apart."""
    name = f"order-{time.time()}"
    answers = [ask(town, "once", i % 2, **{"idempotency-key": name}) for i in range(3)]
    assert [answer.status_code for answer in answers] == [200] * 3
    assert [answer.headers.get("idempotency-replayed") for answer in answers] == [None, "true", "true"]
    assert len({answer.content for answer in answers}) == 1
    assert comes_true(lambda: len(rows_of(town, "once")) > 0, 15.0)
    assert rows_of(town, "once") == [TOKENS]
    pages = [one.metrics for one in town.gateways.values()]
    used = [re.findall(r'penstock_idempotent_requests_total\{state="(\w+)"\} ([\d.]+)', page) for page in pages]
    # Who asks before the store has heard of the answer's end joins it; who asks later has it replayed.
    again = ([("replayed", "1.0")], [("joined", "1.0")])
    assert used[0][:1] == [("first", "1.0")]
    assert used[0][1:] in again
    assert used[1] in again


def test_a_hiccup_of_the_store_counts_nothing_twice(town: Site) -> None:
    """Answers that end while it is silent are settled before budgets are counted from the ledger, which has them."""
    for engine in town.engines:
        engine.behave(step_ms=HICCUP_S * 1e3 / TOKENS)
    for _ in range(HICCUPS):
        meant = len(rows_of(town, "hiccup")) + ASKED
        with ThreadPoolExecutor(ASKED) as callers:
            asked = [callers.submit(ask, town, "hiccup", i % 2) for i in range(ASKED)]
            time.sleep(HICCUP_S / 2)
            town.redis.freeze(frozen=True)
            time.sleep(HICCUP_S)
            town.redis.freeze(frozen=False)
        assert [one.result().status_code for one in asked] == [200] * ASKED
        assert comes_true(partial(has_rows, town, "hiccup", meant), 15.0)
    for engine in town.engines:
        engine.behave()
    until("nothing is held", lambda: not any(town.redis.rest().held.values()))
    meters = {meter: spent for meter, spent in counted(town).items() if meter.startswith("tenant:hiccup:spend")}
    assert list(meters.values()) == [HICCUPS * ASKED * TOKENS] * 2


def test_counters_are_found_wrong_and_put_right(town: Site) -> None:
    """At rest nothing differs or is held; emptied counters heal by themselves, skewed ones are found and rebuilt."""
    # It comes last: the controller knows no models, and takes them away.
    assert [ask(town, "shop", i % 2).status_code for i in range(ASKED)] == [200] * ASKED
    until("the rows are delivered", lambda: len(rows_of(town, "shop")) == ASKED)
    spent = sum(rows_of(town, "shop"))
    meters = {meter for meter in counted(town) if meter.startswith(("tenant:shop:spend", "org:group:spend"))}
    group = spent + sum(rows_of(town, "once")) + sum(rows_of(town, "hiccup"))
    meant = {meter: spent if meter.startswith("tenant:") else group for meter in meters}
    assert spent == ASKED * TOKENS
    assert len(meters) == 4
    until("every meter counts it", lambda: counted(town).items() >= meant.items())
    until("nothing is held", lambda: not any(town.redis.rest().held.values()))

    with town.redis.client() as redis:
        redis.flushall()
    until("gateways have counted anew", lambda: counted(town).items() >= meant.items())

    with controller(town):
        code, said = reconcile(town)
        assert (code, "differ" in said, " 0 differ" in said) == (0, True, True), said
        skewed = next(meter for meter in meters if re.fullmatch(r"tenant:shop:spend:\d{4}-\d\d-\d\d", meter))
        with town.redis.client() as redis:
            redis.hincrby(f"penstock:{{0}}:{skewed}", "spent", 1_000)
        code, said = reconcile(town)
        assert (code, " 1 differ" in said) == (1, True), said
        assert re.search(r"tenant:shop\b.* 0\.001 ", said), said
        code, said = reconcile(town, "--rebuild")
        assert (code, " 0 differ, 1 corrected" in said) == (0, True), said
    assert counted(town)[skewed] == spent
