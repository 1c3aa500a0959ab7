"""Access: every address of both documents, every method, every kind of key, on a running platform.

The addresses come from the OpenAPI documents. An address without a line in ``tests.support.samples.routes`` fails the
tests, so each new address names its callers.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.control.api.app import make_app
from penstock.gateway.app.openapi import document
from tests.support.clock import ManualClock
from tests.support.controllers.in_memory import Room
from tests.support.platforms.tenants import ADMIN, FORGED, Strangers
from tests.support.samples.routes import CONTROLLER, GATEWAY, OF_A_TENANT, OPEN_INFERENCE, For, Route

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


BODIES: Mapping[Route, dict[str, Any]] = {
    ("POST", f"{ADMIN}/orgs"): {"id": "mine"},
    ("POST", f"{ADMIN}/tenants"): {"id": "mine"},
    ("PUT", f"{ADMIN}/tenants/{{tenant}}/org"): {"org": "default"},
    ("POST", f"{ADMIN}/keys"): {"tenant": "operators", "role": "admin"},
    ("POST", f"{ADMIN}/safety/matches"): {"tenant": "operators"},
    ("PUT", f"{ADMIN}/deployments/{{version}}"): {"replicas": 0},
    ("POST", f"{ADMIN}/table/rollback"): {"number": 1},
    ("POST", "/v1/embeddings"): {"model": "smollm2", "input": "hi"},
    ("POST", "/v1/classify"): {"model": "smollm2", "input": "hi"},
    ("POST", "/v1/completions"): {"model": "smollm2", "prompt": "hi", "max_tokens": 1},
    ("POST", "/v1/responses"): {"model": "smollm2", "input": "hi", "max_output_tokens": 1},
    ("POST", "/v1/responses/input_tokens"): {"model": "smollm2", "input": "hi"},
}
"""What would do harm, or cost something, if it got through; other addresses take one of the two below."""
PLAN = {"max_concurrent": 1, "spend_per_day": 1}
CHAT = {"model": "smollm2", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}


def controller_document() -> dict[str, Any]:
    return make_app(Room(ManualClock()).control).openapi()


def routes(described: Mapping[str, Any]) -> set[Route]:
    return {(method.upper(), path) for path, methods in described["paths"].items() for method in methods}


def body_of(method: str, path: str) -> dict[str, Any] | None:
    if method == "GET":
        return None
    if (method, path) in BODIES:
        return BODIES[method, path]
    return CHAT if path.startswith("/v1") else (PLAN if path.startswith(f"{ADMIN}/") else {})


def test_every_route_of_both_documents_is_in_the_matrix(strangers: Strangers) -> None:
    """What runs, what is documented and what is tried here are the same addresses."""
    live = strangers.ask(strangers.platform.controller_url, "", "GET", "/openapi.json").json()
    assert routes(live) == routes(controller_document()) == set(CONTROLLER)
    live = strangers.ask(strangers.platform.url, "", "GET", "/openapi.json").json()
    assert routes(live) == routes(document()) == {*GATEWAY, *OPEN_INFERENCE}


def who_may(route: Route) -> For:
    """Return the callers that get through if the address or the body names another tenant: of tenants' keys none."""
    return For.OPERATORS if route in OF_A_TENANT else CONTROLLER[route]


def refusals(strangers: Strangers, who: For) -> dict[str, set[int]]:
    """Return each credential that must not reach such an address of the controller, and what it may hear."""
    known = {401} if who is For.WORKERS else {403}
    refused = {"": {401}, FORGED: {401}, strangers.revoked: {401}, "x" * 64: {401}}
    refused |= {strangers.infer: known, strangers.scoped: known, strangers.victims: known}
    if who is not For.READERS:
        refused |= {strangers.auditor: known, strangers.admin: known | {400} if who is For.MANAGERS else known}
    if who is For.WORKERS:
        refused[strangers.platform.admin_key] = known
    return refused


@pytest.mark.parametrize(("method", "path"), [route for route, who in CONTROLLER.items() if who is not For.ANYBODY])
def test_the_controller_is_closed_to_strangers(strangers: Strangers, method: str, path: str) -> None:
    """With the victim's objects in the address: only the right role gets through, nothing changes, nothing is told."""
    before, base = strangers.state(), strangers.platform.controller_url
    for secret, statuses in refusals(strangers, who_may((method, path))).items():
        answer = strangers.ask(base, secret, method, strangers.filled(path), body_of(method, path))
        assert answer.status_code in statuses, (secret[:20], answer.text)
        assert strangers.victim not in answer.text
        assert set(answer.json()) == {"error"}
    assert strangers.state() == before


@pytest.mark.parametrize("path", [route[1] for route in CONTROLLER if who_may(route) is For.READERS])
def test_an_auditor_reads_and_no_more(strangers: Strangers, path: str) -> None:
    """The lists tell it of its own tenant alone; the same addresses with any other method don't answer."""
    base, address = strangers.platform.controller_url, strangers.filled(path)
    for secret in (strangers.auditor, strangers.admin):
        answer = strangers.ask(base, secret, "GET", address)
        assert answer.status_code == 200
        assert strangers.victim not in answer.text
        assert strangers.objects["key"] not in answer.text
    for method in METHODS[1:]:
        assert strangers.ask(base, strangers.auditor, method, address, PLAN).status_code in {401, 403, 404, 405}


@pytest.mark.parametrize("path", sorted({path for _, path in CONTROLLER}))
def test_an_undocumented_method_of_the_controller_does_nothing(strangers: Strangers, path: str) -> None:
    """Not even an operator gets through by a method that the document does not have."""
    base, before = strangers.platform.controller_url, strangers.state()
    for method in METHODS:
        if (method, path) not in CONTROLLER:
            for secret in ("", strangers.infer, strangers.auditor, strangers.platform.admin_key):
                answer = strangers.ask(base, secret, method, strangers.filled(path), body_of(method, path))
                assert answer.status_code in {404, 405}, (method, answer.text)
    assert strangers.state() == before


LISTS = {"/v1/models", "/v2/repository/index"}
"""They answer any key, with what it may use."""


@pytest.mark.parametrize(
    ("method", "path"), [route for route, who in {**GATEWAY, **OPEN_INFERENCE}.items() if who is For.CALLERS]
)
def test_the_gateway_is_closed_to_strangers(strangers: Strangers, method: str, path: str) -> None:
    """No key, a wrong one, a revoked one: 401; an auditor's: 403; a key for other models: as if it weren't there."""
    base, address = strangers.platform.url, strangers.filled(path)
    refused = {"": 401, FORGED: 401, strangers.revoked: 401, "x" * 64: 401, strangers.auditor: 403}
    if path not in LISTS:
        refused[strangers.scoped] = 404
    for secret, status in refused.items():
        answer = strangers.ask(base, secret, method, address, body_of(method, path))
        assert answer.status_code == status, (secret[:20], answer.text)
        assert strangers.victim not in answer.text
    if path == "/v1/models":
        listed = strangers.ask(base, strangers.scoped, "GET", address).json()["data"]
        assert listed
        assert not [model["id"] for model in listed if not model["id"].startswith(("minilm", "all-minilm"))]


def test_a_scoped_keys_index_has_its_own_models(strangers: Strangers) -> None:
    """The protocol's index names the models that the key may use, and no others."""
    lines = strangers.ask(strangers.platform.url, strangers.scoped, "POST", "/v2/repository/index", {}).json()
    assert lines
    assert [line["name"] for line in lines if not line["name"].startswith(("minilm", "all-minilm"))] == []


@pytest.mark.parametrize(
    ("method", "path"),
    [(m, p) for (m, p), who in OPEN_INFERENCE.items() if who is For.CALLERS and p not in LISTS],
)
def test_a_scoped_key_finds_no_models_over_the_protocol(strangers: Strangers, method: str, path: str) -> None:
    """A model that exists and one that doesn't get the same answer over the Open Inference Protocol too."""
    told = []
    for model in ("smollm2", "nosuch1"):
        address = path.replace("{model}", model).replace("{version}", "1")
        answer = strangers.ask(strangers.platform.url, strangers.scoped, method, address, body_of(method, path))
        told.append((answer.status_code, answer.json()["code"], answer.json()["error"].replace(model, "MODEL")))
    assert told[0] == told[1]


@pytest.mark.parametrize("path", [path for (_, path), who in GATEWAY.items() if who is For.OWNERS])
def test_what_is_kept_of_a_request_is_its_owners_alone(strangers: Strangers, path: str) -> None:
    """K4: another tenant's keys of any role hear of a real request what they hear of one that never was."""
    base, address = strangers.platform.url, strangers.filled(path)
    for secret in ("", FORGED, strangers.revoked):
        assert strangers.ask(base, secret, "GET", address).status_code == 401
    for secret in (strangers.infer, strangers.scoped, strangers.auditor, strangers.admin):
        told = [strangers.ask(base, secret, "GET", one) for one in (address, path.replace("{request_id}", "req-0"))]
        assert [answer.status_code for answer in told] == [404, 404]
        assert told[0].json()["error"]["message"] == told[1].json()["error"]["message"]
    for secret in (strangers.victims, strangers.platform.admin_key):
        assert strangers.ask(base, secret, "GET", address).json()["tenant"] == strangers.victim


@pytest.mark.parametrize(
    ("method", "path"),
    [(m, p) for (m, p), who in GATEWAY.items() if who is For.CALLERS and p != "/v1/models"],
)
def test_a_scoped_key_learns_nothing_of_other_models(strangers: Strangers, method: str, path: str) -> None:
    """A model that exists and one that doesn't get the same answer, so that names can't be found by asking."""
    told = []
    for model in ("smollm2", "nosuch1"):
        body = body_of(method, path)
        address = path.replace("{model}", model)
        answer = strangers.ask(
            strangers.platform.url, strangers.scoped, method, address, body and {**body, "model": model}
        )
        error = answer.json()["error"]
        told.append((answer.status_code, error["code"], error["message"].replace(model, "MODEL")))
    assert told[0] == told[1]


@pytest.mark.parametrize("path", sorted({path for _, path in GATEWAY}))
def test_an_undocumented_method_of_the_gateway_does_nothing(strangers: Strangers, path: str) -> None:
    """Every other method is refused to all callers."""
    for method in METHODS:
        if (method, path) not in GATEWAY:
            for secret in ("", strangers.infer, strangers.auditor, strangers.platform.admin_key):
                answer = strangers.ask(strangers.platform.url, secret, method, strangers.filled(path), {})
                assert answer.status_code in {401, 403, 404, 405}, (method, answer.text)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json"])
@pytest.mark.parametrize("process", ["gateway", "controller"])
def test_open_addresses_tell_no_tenant(strangers: Strangers, process: str, path: str) -> None:
    """Finding 8: anyone may read them, so they don't name a tenant, even right after its request."""
    assert (
        strangers.ask(strangers.platform.url, strangers.victims, "POST", "/v1/chat/completions", CHAT).status_code
        == 200
    )
    base = strangers.platform.url if process == "gateway" else strangers.platform.controller_url
    answer = strangers.ask(base, "", "GET", path)
    assert answer.status_code == 200
    assert strangers.victim not in answer.text


@pytest.mark.parametrize("process", ["gateway", "controller"])
def test_metrics_are_on_a_listener_of_their_own(strangers: Strangers, process: str) -> None:
    """Finding 8: after a request of a tenant its numbers are on loopback alone, and no other address has them."""
    assert (
        strangers.ask(strangers.platform.url, strangers.victims, "POST", "/v1/chat/completions", CHAT).status_code
        == 200
    )
    base = strangers.platform.url if process == "gateway" else strangers.platform.controller_url
    for secret in ("", strangers.infer, strangers.platform.admin_key):
        answer = strangers.ask(base, secret, "GET", "/metrics")
        assert answer.status_code == 404
        assert strangers.victim not in answer.text
    assert strangers.platform.metrics_url.startswith("http://127.0.0.1:")
    assert f'tenant="{strangers.victim}"' in strangers.http.get(strangers.platform.metrics_url).text


def test_the_operators_and_the_callers_doors_are_two(strangers: Strangers) -> None:
    """A gateway has no operator's address, and a controller answers no question, whatever key is shown."""
    admin = strangers.platform.admin_key
    assert strangers.ask(strangers.platform.url, admin, "GET", f"{ADMIN}/keys").status_code == 404
    assert (
        strangers.ask(strangers.platform.controller_url, admin, "POST", "/v1/chat/completions", CHAT).status_code == 404
    )
