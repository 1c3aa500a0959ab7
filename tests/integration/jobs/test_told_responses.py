"""Who pays for events of a background response that were read, whatever ended it: real vLLM, runners and ledger."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from openai import OpenAI

from penstock.domain.jobs.ids import JobName
from penstock.domain.tenancy.keys import key_id_of
from tests.support.patience import until
from tests.support.platforms.jobs import MODEL, Jobs
from tests.support.platforms.tenants import key_of

pytestmark = pytest.mark.integration

TENANT = "listener"
READ = 12
"""Deltas that are read before the end; each is a token or more."""


@pytest.fixture(scope="module")
def client(jobs: Jobs) -> Iterator[OpenAI]:
    """Yield a client of a tenant that has a budget, which nothing else uses."""
    secret = key_of(jobs.platform, TENANT, spend_per_day=1_000_000)
    with OpenAI(base_url=f"{jobs.platform.url}/v1", api_key=secret, max_retries=0, timeout=120) as made:
        yield made


def spent(jobs: Jobs) -> int:
    """Return what operators are told of the tenant's day, in micro-dollars."""
    told = jobs.platform.act("GET", "/budgets")["budgets"]
    return int(sum(one["spent"] for one in told if (one["scope"], one["period"]) == (f"tenant:{TENANT}", "day")))


def stream(client: OpenAI, tokens: int = 400, **more: Any) -> Any:  # noqa: ANN401  the SDK's own stream
    body = {"ignore_eos": True}
    create: Any = client.responses.create
    return create(
        model=MODEL, input="List all countries.", max_output_tokens=tokens, background=True, stream=True,
        temperature=0, extra_body=body, **more,
    )  # fmt: skip


def read(events: Any, deltas: int) -> JobName:  # noqa: ANN401  the SDK's own stream
    """Read up to so many deltas; return the response's id."""
    name = JobName(next(iter(events)).response.id)
    seen = 0
    for event in events:
        seen += event.type == "response.output_text.delta"
        if seen == deltas:
            break
    assert seen == deltas
    return name


def _another_key(jobs: Jobs) -> str:
    secret = str(json.loads(jobs.platform.run("keys", "create", TENANT, "--json").stdout)["secret"])
    with jobs.platform.http(secret) as http:
        until("the gateway knows the key", lambda: http.get("/v1/models").status_code == httpx.codes.OK)
    return secret


def _revoke(jobs: Jobs, client: OpenAI, _: JobName) -> None:
    jobs.platform.run("keys", "revoke", str(key_id_of(client.api_key)))


ENDS: dict[str, Callable[[Jobs, OpenAI, JobName], object]] = {
    "cancel": lambda _, client, name: client.responses.cancel(name),
    "delete": lambda _, client, name: client.responses.delete(name),
    "deadline": lambda *_: None,
    "revoked key": _revoke,
}


@pytest.mark.parametrize("by", ENDS)
def test_what_was_read_is_billed_once(jobs: Jobs, client: OpenAI, by: str) -> None:
    """A response that ends after its events were read costs what its engine did, and its budget shows it."""
    before = spent(jobs)
    is_late = by == "deadline"
    more = {"extra_headers": {"x-penstock-deadline-ms": "10000"}} if is_late else {}
    deltas = 1 if is_late else READ
    if by == "revoked key":
        client = client.with_options(api_key=_another_key(jobs))
    with stream(client, 2000 if is_late else 400, **more) as events:
        name = read(events, deltas)
        ENDS[by](jobs, client, name)
        jobs.until(lambda: bool(jobs.billed(name)), within_s=30)
    (row,) = jobs.billed(name)
    assert row["output_tokens"] >= deltas
    assert row["cost"] > 0
    until("the budget shows it", lambda: spent(jobs) == before + row["cost"], within_s=30)


@pytest.mark.parametrize("then", ["succeeds", "cancelled"])
def test_a_lost_attempt_and_its_next_are_one_bill(jobs: Jobs, client: OpenAI, then: str) -> None:
    """A killed runner's events are billed, and the next attempt costs only what it makes beyond them."""
    with stream(client, 60) as events:
        name = read(events, READ)
        if then == "cancelled":
            jobs.pause("all")
        os.kill(jobs.holder(name), signal.SIGKILL)
        jobs.until(lambda: bool(jobs.billed(name)))
        (lost,) = jobs.billed(name)
        assert (lost["cost"] > 0, lost["exact"], lost["output_tokens"] >= READ - 1) == (True, False, True)
        if then == "cancelled":
            client.responses.cancel(name)
            jobs.resume("all")
    jobs.until(lambda: not jobs.job(name, TENANT).state.is_open)  # type: ignore[arg-type]
    rows = jobs.billed(name)
    if then == "cancelled":
        assert rows == [lost]
        return
    whole = stream(client, 60)
    read(whole, 1)
    alone = next(event.response.id for event in whole if event.type in ("response.completed", "response.incomplete"))
    jobs.until(lambda: bool(jobs.billed(alone)))
    (other,) = jobs.billed(alone)
    assert sum(row["cost"] for row in rows) == other["cost"] == max(lost["cost"], other["cost"])
