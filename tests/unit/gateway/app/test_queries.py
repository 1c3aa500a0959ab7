"""Query parameters: each path reads the ones that the document lists, and refuses all others."""

from functools import cache
from typing import Any

import httpx
import pytest
from anthropic._constants import ANTHROPIC_API_VERSION

from penstock.domain.fleet.table import RoutingTable
from penstock.gateway.app.asgi import Edge
from penstock.gateway.app.openapi import document
from penstock.gateway.openai.parse import COUNTS
from penstock.gateway.openai.services import Facts
from penstock.intake.limits import Limits
from tests.support.gateways.toy import SECRET, Toy, edge, hello
from tests.support.samples.calls import VERSION
from tests.support.samples.routes import GATEWAY, OPEN_INFERENCE

ROUTES = sorted({*GATEWAY, *OPEN_INFERENCE})
ANTHROPIC = {"anthropic-version": "2023-06-01"}
MODELS = RoutingTable(number=1, made_at=1.0, versions=(VERSION,), routes=())


@cache
def gateway() -> Edge:
    told: Any = {"table": lambda: MODELS, "missing": lambda: ""}
    return edge(Toy(hello), Limits(), Facts(**told))


async def ask(
    method: str,
    path: str,
    query: list[tuple[str, Any]],
    headers: dict[str, str],
    body: Any = None,  # noqa: ANN401
) -> httpx.Response:
    at = path.replace("{model}", VERSION.id).replace("{version}", "v").replace("{request_id}", "req-1")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=gateway()), base_url="http://g") as http:
        own = {"authorization": f"Bearer {SECRET}", **headers}
        return await http.request(method, at, params=query, headers=own, json=body)


NAMES = {
    *("after_id", "before_id", "beta", "lifecycle[]", "limit", "after", "order", "state", "model", "purpose"),
    *("stream", "starting_after", "include", "include[]", "include_obfuscation"),
}
"""The query parameters of all paths."""


@cache
def paths() -> Any:  # noqa: ANN401
    return document()["paths"]


def listed(method: str, path: str) -> set[str]:
    operation: Any = paths()
    return {one["name"] for one in operation[path][method.lower()].get("parameters", ()) if one["in"] == "query"}


@pytest.mark.parametrize(("method", "path"), [*ROUTES, ("GET", "/nothing"), ("PUT", "/v1/models")])
async def test_an_unknown_parameter_is_refused_on_every_path(method: str, path: str) -> None:
    """By its name, with a key or a body or without; it was dropped without a word."""
    for name in ("api-version", "limits", "a\x1bb"):
        answer = await ask(method, path, [(name, "x")], {})
        told = answer.json().get("error", answer.json())
        told = told if isinstance(told, dict) else answer.json()
        assert (answer.status_code, told["code"]) == (400, "unsupported_field"), name
        assert told["param"] == name.replace("\x1b", "?")
        assert "leave it out" in told["message"]


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_a_listed_parameter_is_read(method: str, path: str) -> None:
    """Of those that any path reads, a path takes its own and no other."""
    names = set().union(*(listed(*route) for route in ROUTES))
    assert names == NAMES
    for name in names:
        answer = await ask(method, path, [(name, "1")], ANTHROPIC)
        refused = answer.status_code == 400 and answer.json().get("error", {}).get("code") == "unsupported_field"
        assert refused != (name in listed(method, path)) or path.startswith("/v2"), name


async def test_a_parameter_given_twice_is_refused() -> None:
    """Only a list may have several values; pages belong to Anthropic's form alone."""
    twice = await ask("GET", "/v1/models", [("limit", "1"), ("limit", "2")], ANTHROPIC)
    assert (twice.status_code, twice.json()["error"]["param"]) == (400, "limit")
    several = [("lifecycle[]", "active"), ("lifecycle[]", "retired")]
    assert (await ask("GET", "/v1/models", several, ANTHROPIC)).status_code == 200
    assert (await ask("GET", "/v1/models", [("limit", "1")], {})).status_code == 400


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
async def test_an_unknown_version_of_anthropics_api_is_refused(path: str) -> None:
    """With the header's name as its field; the SDK's and earlier ones are taken, and a later one is told."""
    body: dict[str, Any] = {"model": VERSION.id, "messages": [{"role": "user", "content": "x"}]}
    body |= {} if path in COUNTS else {"max_tokens": 1}
    for unknown in ("1999-01-01", "2024-01-01", "latest", ""):
        for method, where in (("POST", path), ("GET", "/v1/models")):
            odd = await ask(method, where, [], {"anthropic-version": unknown}, body)
            assert (odd.status_code, odd.json()["error"]["param"]) == (400, "anthropic-version"), unknown
    for version in (ANTHROPIC_API_VERSION, "2023-01-01", "2023-06-01"):
        good = await ask("POST", path, [("beta", "true")], {"anthropic-version": version}, body)
        assert (good.status_code, good.headers.get("x-penstock-ignored")) == (200, None)
    later = await ask("POST", path, [], {"anthropic-version": "2098-01-01"}, body)
    assert (later.status_code, later.headers["x-penstock-ignored"]) == (200, "anthropic-version=2098-01-01")
