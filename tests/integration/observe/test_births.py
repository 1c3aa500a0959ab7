"""`penstock diagnose` of a real Prometheus that has seen the whole platform start, and no process end.

It comes before processes are killed: of a gone one, a long window counts the last scrape.
"""

import json
from typing import Any

import pytest

from tests.support.patience import until
from tests.support.platforms.observed import Observed
from tests.support.platforms.tenants import key_of

pytestmark = pytest.mark.observe

SENT = 3


def diagnosed(observed: Observed) -> dict[str, Any]:
    asked = ("diagnose", "--prometheus", observed.prometheus, "--window", "1h", "--json")
    told: dict[str, Any] = json.loads(observed.platform.run(*asked, check=False).stdout)
    return told


def asked(observed: Observed, key: str) -> int:
    with observed.platform.http(key) as http:
        return http.post("/v1/embeddings", json={"model": "minilm", "input": "words"}).status_code


def sent(observed: Observed, name: str, times: int) -> None:
    """Have a new tenant ask so often, and wait until Prometheus has seen it, and so whatever was before."""
    key = key_of(observed.platform, name)
    assert [asked(observed, key) for _ in range(times)] == [200] * times
    seen = f'penstock_requests_total{{tenant="{name}"}} == {times}'
    until("they were scraped", lambda: bool(observed.query(seen)))


def test_processes_that_were_born_in_the_window_count(observed: Observed) -> None:
    """The first requests of a new tenant count, and workers that started are no reason against a cold start."""
    sent(observed, "firstborn", 1)
    before = diagnosed(observed)["requests"]
    sent(observed, "newborn", SENT)
    told = diagnosed(observed)
    assert told["requests"] == before + SENT
    against = {one["case"]: {check["says"] for check in one["because"]} for one in told["ruled_out"]}
    assert "workers started" not in against.get("cold-start", ())
