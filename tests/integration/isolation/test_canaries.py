"""Nothing that a caller writes stands in any sink of a running platform, its database and its engines included."""

import pytest

from tests.support.clients import canaries
from tests.support.patience import until
from tests.support.platforms.local import Platform

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

WEIGHTS = ("cache/", "artifacts/")
"""Models and what engines compile: large, and nobody writes there what callers say."""
PROCESSES = ("gateway", "controller", "postgres", "worker", "engine")


def test_no_canary_is_in_any_sink_of_the_platform(platform: Platform) -> None:
    """Logs, engines' logs, records, spool, the database's files and its journal, metrics and arguments hold none."""
    with platform.http() as client:
        answers = canaries.ask_in_every_way(client, "smollm2")
        requests = [answer.headers["x-request-id"] for answer in answers]
        told = [client.get(f"/v1/requests/{request}") for request in requests]
    until("the ledger has its row", lambda: requests[0] in {r["request"] for r in platform.usage("demo")}, within_s=20)
    sinks = {f"explained {n}": answer.content for n, answer in enumerate(told)}
    sinks |= canaries.files_below(platform.home, leaving_out=WEIGHTS)
    sinks |= canaries.arguments_of(pid for name in PROCESSES for pid in platform.pids(name))
    assert answers[0].is_success
    assert {name.partition("/")[0] for name in sinks} >= {"logs", "records", "postgres", "run"}
    assert any("engine" in name for name in sinks)
    assert canaries.found_in(sinks) == []
