"""Models, health, and everything that is not there: one error shape, and a document that says so."""

import re
from dataclasses import replace
from functools import cache, partial
from unittest.mock import ANY

import httpx
import pytest
from openapi_spec_validator import validate as validate_document

from penstock import __version__
from penstock.domain.errors import UnknownRequest
from penstock.domain.fleet.table import Route, RoutingTable, Share, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import Alias, KeyId, TenantId, VersionId, WorkerId
from penstock.domain.jobs.errors import StorageFull
from penstock.domain.serving.auto import Auto, Rule
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import Plan, Principal, Role
from penstock.gateway.app import anthropic_models
from penstock.gateway.app.asgi import Edge
from penstock.gateway.app.openapi import document
from penstock.gateway.app.routes import visible
from penstock.gateway.calls.call import Call
from penstock.gateway.calls.relay import Reply
from penstock.gateway.deferred.access import Routes
from penstock.gateway.deferred.batches import add_batches
from penstock.gateway.deferred.files import add_files
from penstock.gateway.deferred.jobs import add_jobs
from penstock.gateway.deferred.responses import add_responses
from penstock.gateway.deferred.webhooks import Webhooks
from penstock.gateway.openai.services import Facts
from penstock.intake.limits import Limits
from penstock.jobs.batch_intake import BatchIntake
from tests.support.gateways.toy import SECRET, Toy, edge, hello
from tests.support.samples import adapter_versions
from tests.support.samples.calls import VERSION
from tests.support.samples.routes import GATEWAY, OPEN_INFERENCE

OLD = replace(VERSION, id=VersionId("toy@old"), workers=())
NEW = replace(VERSION, workers=(WorkerEntry(id=WorkerId("w"), url="http://127.0.0.1:1", state=WorkerState.READY),))
TABLE = RoutingTable(
    number=7,
    made_at=100.0,
    versions=(OLD, NEW),
    routes=(
        Route(alias=Alias("toy"), shares=(Share(version=OLD.id, weight=1000), Share(version=NEW.id, weight=9000))),
    ),
)


async def ask(path: str, method: str = "GET", *, auth: bool = True, **facts: object) -> httpx.Response:
    told = {"table": lambda: TABLE, "missing": lambda: "", **facts}
    app = edge(Toy(hello), Limits(), Facts(**told))  # type: ignore[arg-type]
    headers = {"authorization": f"Bearer {SECRET}"} if auth else {}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://g") as http:
        return await http.request(method, path, headers=headers)


def caller(*models: str) -> Principal:
    scope = tuple(Alias(name) for name in models)
    return Principal(tenant=TenantId("t"), key=KeyId("k"), role=Role.INFER, plan=Plan(), models=scope, cache_salt="")


async def test_models_are_listed_by_alias_and_by_version() -> None:
    """The list tells what each name stands for and whether something serves it."""
    data = {card["id"]: card for card in (await ask("/v1/models")).json()["data"]}
    assert list(data) == ["toy", "toy@old", NEW.id]
    assert (data["toy"]["version"], data["toy"]["ready_workers"], data["toy@old"]["ready_workers"]) == (NEW.id, 1, 0)


def test_training_use_is_told_with_each_model() -> None:
    """Off in a plan that does not say so, and as the caller's own plan says; in Anthropic's form, too."""
    told = {plan: visible(TABLE, replace(caller(), plan=plan)) for plan in (Plan(), Plan(training_use=True))}
    assert [{card["training_use"] for card in cards.values()} for cards in told.values()] == [{"no"}, {"yes"}]
    assert anthropic_models.info(told[Plan()]["toy"])["training_use"] == "no"


async def test_a_name_that_stands_for_rules_is_listed() -> None:
    """With the largest context that one of its rules leads to, and only to keys that may use what it leads to."""
    rules = (Rule(name="a", to=Alias("toy@old")), Rule(name="b", to=Alias(NEW.id)))
    table = replace(TABLE, autos=(Auto(alias=Alias("auto"), rules=rules),))
    card = visible(table, caller())["auto"]
    assert (card["id"], card["version"], card["rules"]) == ("auto", NEW.id, ["a", "b"])
    assert card["max_model_len"] == max(version.max_model_len for version in table.versions)
    assert "auto" in visible(table, caller("auto", NEW.id))
    assert not {"auto"} & visible(table, caller(NEW.id)).keys()
    assert not {"auto"} & visible(table, caller("auto")).keys()


@pytest.mark.parametrize(
    ("scope", "names"),
    [(("toy",), ["toy"]), ((NEW.id,), [NEW.id]), (("other",), []), (("toy", NEW.id), ["toy", NEW.id])],
)
def test_a_key_sees_what_it_may_use(scope: tuple[str, ...], names: list[str]) -> None:
    """A scoped key learns nothing of other models, nor by an alias the names of the versions behind it."""
    assert list(visible(TABLE, caller(*scope))) == names


def test_an_adapter_is_listed_with_its_bases_workers() -> None:
    """It is a model to callers, as ready as its base, and unknown to a key that may use the base alone."""
    adapter = adapter_versions.entry(base=NEW)
    table = replace(TABLE, versions=(*TABLE.versions, adapter))
    assert visible(table, caller())[adapter.id]["ready_workers"] == 1
    assert list(visible(table, caller(NEW.id))) == [NEW.id]


async def test_one_model_is_described_and_an_unknown_one_is_not() -> None:
    """Names with an at sign and names that don't exist both get their answer."""
    assert (await ask(f"/v1/models/{NEW.id}")).json()["id"] == NEW.id
    answer = await ask("/v1/models/gpt-9")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


async def test_a_request_is_explained_to_whose_it_is() -> None:
    """What is kept comes as JSON to a caller with a key; what is not kept is 404, and a stranger is 401."""

    async def explain(who: Principal, request_id: str) -> object:
        if request_id != "req-1":
            raise UnknownRequest
        return {"object": "request", "id": request_id, "tenant": who.tenant}

    answer = await ask("/v1/requests/req-1", explain=explain)
    assert (answer.status_code, answer.json()["tenant"]) == (200, "acme")
    answer = await ask("/v1/requests/req-2", explain=explain)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "request_not_found")
    assert (await ask("/v1/requests/req-1", auth=False, explain=explain)).status_code == 401
    assert (await ask("/v1/requests/req-1")).status_code == 404


async def test_the_list_needs_a_key() -> None:
    """Who may not use a model does not learn its name."""
    assert (await ask("/v1/models", auth=False)).status_code == 401


@pytest.mark.parametrize(
    ("path", "method", "status", "code"),
    [
        ("/nothing", "GET", 404, "route_not_found"),
        ("/v1/chat", "POST", 404, "route_not_found"),
        ("/v1/models/", "GET", 404, "model_not_found"),
        ("/v1/models", "POST", 405, "method_not_allowed"),
        ("/v1/chat/completions", "GET", 405, "method_not_allowed"),
        ("/v1/messages", "DELETE", 405, "method_not_allowed"),
        ("/v1/messages", "OPTIONS", 405, "method_not_allowed"),
        ("/healthz", "PUT", 405, "method_not_allowed"),
    ],
)
async def test_what_is_not_there_is_told_in_our_shape(path: str, method: str, status: int, code: str) -> None:
    """FastAPI's own errors look like all others, with an id, and say which methods there are."""
    answer = await ask(path, method)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.json()["error"]["request_id"] == answer.headers["x-request-id"]
    assert ("allow" in answer.headers) == (status == 405)


DEFERRED: tuple[Routes, ...] = (
    partial(add_jobs, jobs=ANY, submits=ANY),
    partial(add_files, files=ANY),
    partial(add_batches, batches=BatchIntake(store=ANY, workers=ANY, clock=ANY, ids=ANY)),
    partial(add_responses, responses=ANY),
    Webhooks(ANY, ()).routes,
)
"""No request reaches a service: none has a key."""


@cache
def whole() -> Edge:
    return edge(Toy(hello), Limits(), Facts(table=lambda: TABLE, missing=lambda: ""), deferred=DEFERRED)


@pytest.mark.parametrize("path", sorted({path for _, path in (*GATEWAY, *OPEN_INFERENCE)}))
async def test_a_wrong_method_is_told_all_right_ones(path: str) -> None:
    """Each route knows its own method alone; ``Allow`` is for the path (RFC 9110, 15.5.6)."""
    address = re.sub(r"\{(\w+)\}", r"\1_0123456789ab", path)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=whole()), base_url="http://g") as http:
        answers = {method: await http.request(method, address) for method in ("GET", "POST", "PATCH", "DELETE", "PUT")}
    served = {method for method, answer in answers.items() if answer.status_code != 405}
    assert served >= {method for method, known in (*GATEWAY, *OPEN_INFERENCE) if known == path}
    for refused in answers.keys() - served:
        assert set(answers[refused].headers["allow"].split(", ")) == served


@pytest.mark.parametrize(
    ("path", "body", "charged"),
    [
        ("/v1/responses", {"background": True}, None),
        ("/v1/responses", {}, Api.RESPONSES),
        ("/v1/webhooks", None, None),
        ("/v1/models", None, Api.CHAT),
    ],
)
async def test_work_for_later_spends_no_budget_of_chat(path: str, body: dict[str, object] | None, charged: Api) -> None:
    """A full disk refuses jobs; its goods are not counted among chat's, so its faults are not either."""

    async def full(call: Call, reply: Reply) -> None:
        raise StorageFull(retry_after_s=5.0)

    def away() -> RoutingTable:
        raise StorageFull

    toy = Toy(full)
    app = edge(toy, Limits(), Facts(table=away, missing=lambda: ""), deferred=DEFERRED)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://g") as http:
        headers = {"authorization": f"Bearer {SECRET}"}
        asked = None if body is None else {"model": "toy", "input": "hi", **body}
        await http.request("POST" if asked else "GET", path, json=asked, headers=headers)
    assert toy.seen.charged == [charged]


async def test_health_is_apart_from_readiness() -> None:
    """A process that waits for its table lives and is not ready; the callers' port says no more than that."""
    assert (await ask("/healthz", auth=False)).json() == {"status": "ok"}
    assert (await ask("/readyz", auth=False)).json() == {"status": "ready"}
    waiting = await ask("/readyz", missing=lambda: "routing table")
    assert (waiting.status_code, waiting.headers["retry-after"]) == (503, "1")
    assert "routing table" not in waiting.text
    assert (await ask("/readyz", draining=lambda: True)).json()["error"]["code"] == "draining"


async def test_whoever_leads_callers_here_may_ask_whether_anybody_could_answer() -> None:
    """Finding R15: the DNS asks the region's own question from outside; it hears yes or no, also while one drains."""
    draining = await ask("/readyz/region", auth=False, draining=lambda: True)
    assert (draining.status_code, draining.json()) == (200, {"status": "serving"})
    for told in ({"serves": lambda: False}, {"missing": lambda: "routing table"}):
        silent = await ask("/readyz/region", auth=False, **told)
        assert (silent.status_code, silent.headers["retry-after"]) == (503, "1")
        assert not {"table", "worker"} & set(silent.text.split())


async def test_metrics_are_not_for_callers() -> None:
    """Finding 8: the callers' port has no metrics, with a key or without one."""
    for auth in (False, True):
        answer = await ask("/metrics", auth=auth)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "route_not_found")


async def test_a_fault_in_a_route_is_a_500_in_our_shape() -> None:
    """Even a broken route answers in the one shape."""

    def broken() -> str:
        raise RuntimeError("secret")

    answer = await ask("/readyz", missing=broken)
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
    assert "secret" not in answer.text


async def test_the_document_is_served_and_valid() -> None:
    """The document is sound OpenAPI 3.1 and lists every route."""
    served = (await ask("/openapi.json", auth=False)).json()
    validate_document(served)
    assert served == document()
    assert {(m.upper(), path) for path, methods in served["paths"].items() for m in methods} == {
        *GATEWAY,
        *OPEN_INFERENCE,
    }


@pytest.mark.parametrize(("path", "method"), [("/health", "GET"), ("/ping", "GET"), ("/ping", "POST")])
async def test_health_is_told_as_vllm_tells_it(path: str, method: str) -> None:
    """A status and no body, without a key: 200 where it can serve, 503 where it waits for its table or drains."""
    well = await ask(path, method, auth=False)
    assert (well.status_code, well.content) == (200, b"")
    waiting = await ask(path, method, auth=False, missing=lambda: "routing table")
    draining = await ask(path, method, auth=False, draining=lambda: True)
    assert [(one.status_code, one.content) for one in (waiting, draining)] == [(503, b"")] * 2


async def test_the_version_is_told_as_vllm_tells_it() -> None:
    """One field, without a key."""
    assert (await ask("/version", auth=False)).json() == {"version": __version__}
