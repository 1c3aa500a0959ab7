"""Every answer of ours that is a 5xx burns the error budget, whatever it came out of."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from penstock.domain.errors import PenstockError, StoreUnavailable
from penstock.domain.models.model import Tier
from penstock.domain.outcome import Outcome
from penstock.gateway.app.asgi import Edge
from penstock.gateway.app.routes import Refusals, application
from penstock.gateway.listener.errors import TABLE, row_of
from penstock.gateway.openai.services import Facts
from penstock.gateway.records.requests import RequestLedger
from penstock.intake.limits import Limits
from penstock.telemetry.metrics import Metrics
from tests.support.clock import ManualClock
from tests.support.gateways.toy import SECRET, Toy, edge, hello

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
PATHS: dict[str, tuple[dict[str, Any] | None, Tier]] = {
    "/v1/chat/completions": (CHAT, Tier.CHAT),
    "/v1/completions": ({"model": "m", "prompt": "hi"}, Tier.CHAT),
    "/v1/responses": ({"model": "m", "input": "hi"}, Tier.CHAT),
    "/v1/messages": ({**CHAT, "max_tokens": 5}, Tier.CHAT),
    "/v1/messages/count_tokens": (CHAT, Tier.CHAT),
    "/v1/embeddings": ({"model": "m", "input": "hi"}, Tier.EMBEDDING),
    "/v1/classify": ({"model": "m", "input": "hi"}, Tier.CLASSIC),
    "/v2/models/m/infer": ({"inputs": []}, Tier.CLASSIC),
    "/v1/models": (None, Tier.CHAT),
    "/v1/requests/req-1": (None, Tier.CHAT),
    "/v2/models/m": (None, Tier.CHAT),
    "/v2/repository/index": ({}, Tier.CHAT),
}
FAULTS = [kind for kind in TABLE if row_of(kind()).status >= 500 and kind().outcome.spends_error_budget]


def raising(error: Exception) -> Any:  # noqa: ANN401  in the place of any function
    def fails(*_: object, **__: object) -> Any:  # noqa: ANN401  it never returns
        raise error

    return fails


class Broken:
    """Stands for whatever a request meets first."""

    def __init__(self, error: Exception) -> None:
        self.authenticate = self.recognise = self.asking = raising(error)

    def claimed(self, credential: str) -> Any:  # noqa: ANN401  nobody
        from penstock.domain.tenancy.credentials import NOBODY

        return NOBODY


def places(error: Exception, ledger: RequestLedger) -> Iterator[tuple[str, Edge]]:
    """Yield the edge broken in one place after another."""
    facts = Facts(table=raising(error), missing=lambda: "", explain=raising(error))
    whole = replace(edge(Toy(hello), Limits(), facts), observer=ledger)

    def rest(keys: Any) -> Any:  # noqa: ANN401  any identity, and an app
        return application(Refusals(keys, ledger), facts, ids=lambda: "1")

    broken = Broken(error)
    yield "identity", replace(whole, identity=broken, rest=rest(broken))
    yield "bounds", replace(whole, bounds=raising(error), rest=rest(whole.identity))
    yield (
        "corridor",
        replace(
            whole,
            corridor=Toy(raising(error)),
            counting=Toy(raising(error)),
            table=raising(error),
            rest=rest(whole.identity),
        ),
    )


WAYS: list[tuple[str, Exception]] = [
    *((path, RuntimeError("a bug")) for path in PATHS),
    *((path, StoreUnavailable()) for path in PATHS),
    *(("/v1/chat/completions", kind()) for kind in FAULTS),
]


@pytest.mark.parametrize(("path", "error"), WAYS, ids=str)
async def test_every_way_to_a_5xx_is_counted_once(path: str, error: Exception, clock: ManualClock) -> None:
    """On every path, in every place before admission, as an error of the table and as a bug."""
    body, tier = PATHS[path]
    for number in range(3):
        metrics = Metrics()
        where, app = list(places(error, RequestLedger(metrics, clock.monotonic)))[number]
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app, raise_app_exceptions=False), base_url="http://g"
        ) as http:
            method, headers = "POST" if body is not None else "GET", {"authorization": f"Bearer {SECRET}"}
            answer = await http.request(method, path, headers=headers, json=body)
        bad = _bad(metrics, tier)
        assert bad == (1.0 if answer.status_code >= 500 else 0.0), (where, answer.status_code, answer.text)
        if where == "identity":
            assert answer.status_code >= 500


def _bad(metrics: Metrics, tier: Tier) -> float:
    found = 0.0
    for line in metrics.exposition().decode().splitlines():
        if line.startswith("penstock_tier_requests_total{"):
            labels, _, value = line.rpartition(" ")
            outcome = labels.partition('outcome="')[2].partition('"')[0]
            assert f'tier="{tier}"' in labels
            found += float(value) * Outcome(outcome).spends_error_budget
    return found


def test_the_table_has_faults_of_ours() -> None:
    """The list that is walked is the published one."""
    assert PenstockError in FAULTS
    assert len(FAULTS) >= 8
