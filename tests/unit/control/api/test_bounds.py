"""Every value that operators send has a bound, and every parameter is one that the route has."""

import copy
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from penstock.control.api import bounds
from penstock.control.api.app import ADMIN, make_app
from penstock.control.api.errors import MESSAGE_CHARS, PARAM_CHARS
from penstock.domain.tenancy.tenant import Role
from tests.support.clock import ManualClock
from tests.support.controllers.in_memory import Room, bearer_of
from tests.unit.control.api.test_openapi import SHAPES, TYPED, sample, written

Step = str | int
APP = make_app(Room(ManualClock()).control)
DOCUMENT = APP.openapi()
CALLS = sorted(
    (method.upper(), path)
    for path, methods in DOCUMENT["paths"].items()
    for method in methods
    if path.startswith((ADMIN, "/internal"))
)
MARKS = ("\x1b[2J", "\x00", "\r", "\x9b31m", "\u202e", "\u200f", "\u2066", "\ufeff")


def leaves(shape: dict[str, Any], path: tuple[Step, ...] = ()) -> Iterator[tuple[tuple[Step, ...], dict[str, Any]]]:
    """Yield every text and list of a shape with its path in ``sample`` of the shape."""
    if "$ref" in shape:
        yield from leaves(SHAPES[shape["$ref"].rpartition("/")[2]], path)
        return
    if "anyOf" in shape:
        yield from leaves(next(one for one in shape["anyOf"] if one.get("type") != "null"), path)
        return
    if shape.get("type") in {"string", "array"}:
        yield path, shape
    for name, one in shape.get("properties", {}).items():
        yield from leaves(one, (*path, name))
    if "items" in shape:
        yield from leaves(shape["items"], (*path, 0))
    for number, one in enumerate(shape.get("prefixItems", ())):
        yield from leaves(one, (*path, number))


def put(body: Any, path: tuple[Step, ...], value: object) -> Any:  # noqa: ANN401  JSON
    """Return the body with another value at this path."""
    found = copy.deepcopy(body)
    at = found
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return found


def path_of(path: tuple[Step, ...]) -> str:
    return "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in path).lstrip(".")


@pytest.mark.parametrize("route", sorted(TYPED), ids=" ".join)
async def test_every_text_and_list_of_a_body_has_a_bound(route: tuple[str, str], operator: httpx.AsyncClient) -> None:
    """The document names it, the route holds it, and the refusal names the field and does not grow."""
    body = sample(TYPED[route])
    for path, shape in leaves(TYPED[route]):
        if shape.keys() & {"enum", "const"}:
            continue
        most = shape.get("maxLength", shape.get("maxItems"))
        assert most is not None, f"{route}: {path_of(path)} has no bound"
        assert most <= 1 << 20
        long = "x" * (most + 1) if shape["type"] == "string" else [0] * (most + 1)
        answer = await operator.request(*route, json=put(body, path, long))
        told = answer.json()["error"]
        assert (answer.status_code, told["param"]) == (400, path_of(path)), (path, told)
        assert len(answer.content) < MESSAGE_CHARS + PARAM_CHARS + 200


@pytest.mark.parametrize("route", sorted(TYPED), ids=" ".join)
async def test_no_text_hides_or_turns_what_stands_beside_it(
    route: tuple[str, str], operator: httpx.AsyncClient
) -> None:
    """Control characters and marks are refused in every text that is shown in one line."""
    body = sample(TYPED[route])
    for path, shape in leaves(TYPED[route]):
        named = [one for one in path if isinstance(one, str)]
        if shape["type"] != "string" or "enum" in shape or named[-1] in bounds.WRITTEN:
            continue
        for mark in MARKS:
            answer = await operator.request(*route, json=put(body, path, f"a{mark}b"))
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, path_of(path)), (path, mark)


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
async def test_a_parameter_that_the_route_does_not_have_is_refused(call: tuple[str, str], room: Room) -> None:
    """By name, on every route; one that is given twice too, and a value of any length or with a control character."""
    worker = call[1].startswith("/internal")
    credential = bearer_of("w1") if worker else await room.key(Role.ADMIN)
    known = [one["name"] for one in parameters(call) if one["in"] == "query"]
    async with room.client(credential, worker="w1" if worker else "") as client:
        strange = await client.request(*call, params={"bgin": "1"}, json={})
        assert (strange.status_code, strange.json()["error"]["param"]) == (400, "bgin")
        for name in known:
            twice = await client.request(call[0], f"{call[1]}?{name}=1&{name}=1", json={})
            assert (twice.status_code, twice.json()["error"]["param"]) == (400, name)
            for value in ("x" * 5000, "a\x1b"):
                odd = await client.request(*call, params={name: value}, json={})
                assert (odd.status_code, odd.json()["error"]["param"]) == (400, name)
                assert len(odd.content) < 1000


def parameters(call: tuple[str, str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DOCUMENT["paths"][call[1]][call[0].lower()].get("parameters", [])
    return found


ODD = {
    "integer": ("-1", "0", "1.5", "nan", "1e9", "9" * 30, "x", "", "true"),
    "number": ("nan", "inf", "-inf", "-1", "1e999", "x", ""),
    "string": ("xml",),
}


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
async def test_an_odd_value_of_a_parameter_is_refused(call: tuple[str, str], operator: httpx.AsyncClient) -> None:
    """Numbers that are none or out of range, words that are no choice: 400 with the parameter's name."""
    for one in parameters(call):
        shape = SHAPES[one["schema"]["$ref"].rpartition("/")[2]] if "$ref" in one["schema"] else one["schema"]
        if one["in"] != "query" or (shape["type"] == "string" and "enum" not in shape):
            continue
        for value in ODD[shape["type"]]:
            body = sample(TYPED[call]) if call in TYPED else {}
            answer = await operator.request(*call, params={one["name"]: value}, json=body)
            assert answer.status_code == 400, (one["name"], value, answer.text)
            assert answer.json()["error"]["param"] == one["name"]


async def test_a_path_has_a_bound(operator: httpx.AsyncClient) -> None:
    """A name in the address too, on every route; the answer does not grow with it."""
    for call in CALLS:
        if not call[1].startswith(ADMIN) or "{" not in call[1]:
            continue
        for value, status in (("x" * 5000, 400), ("a%1bb", 400)):
            path = call[1]
            for one in parameters(call):
                path = path.replace(f"{{{one['name']}}}", value)
            answer = await operator.request(call[0], path, json={})
            assert answer.status_code == status, (call, answer.text)
            assert len(answer.content) < 1000


@pytest.mark.parametrize(
    ("raw", "param"),
    [
        (b'{"id": "a", "id": "b"}', "id"),
        (b'{"id": "a", "plan": {"weight": 1, "weight": 2}}', "weight"),
        (b'{"id": "a", "' + b"x" * 3_000_000 + b'": 1}', "x" * (PARAM_CHARS - 1) + "…"),
    ],
)
async def test_a_name_stands_once_and_does_not_grow_the_answer(
    raw: bytes, param: str, operator: httpx.AsyncClient
) -> None:
    """A field that stands twice is refused by name; an unknown one of any length is cut in the answer."""
    answer = await operator.post(f"{ADMIN}/tenants", content=raw)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert len(answer.content) < 1000


async def test_a_document_without_slashes_at_the_end_has_none(operator: httpx.AsyncClient) -> None:
    """No address redirects: what is not in the document is a 404."""
    answer = await operator.get(f"{ADMIN}/models/")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "route_not_found")


def test_every_route_is_bounded() -> None:
    """Each has a handler of ours, which bounds its body and its address."""
    assert len(CALLS) > 40
    assert {type(route).__name__ for route in APP.routes if isinstance(route, APIRoute)} == {"ActRoute", "JsonRoute"}
    assert written(("a", 0)) == "a[0].mispelt"
