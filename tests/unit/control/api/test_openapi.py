"""The OpenAPI document is true: bodies refuse what it does not name, answers are what it says."""

import copy
from collections.abc import Iterator
from typing import Any

import httpx
import hypothesis
import pytest
import schemathesis
from openapi_spec_validator import validate
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from penstock.control.api.app import ADMIN, make_app
from penstock.control.api.bodies import PlanChange
from penstock.control.api.wire import MAX_BODY_BYTES
from penstock.domain.tenancy.tenant import Plan, Role
from tests.support.clock import ManualClock
from tests.support.controllers.in_memory import Room

ROOM = Room(ManualClock())
DOCUMENT = make_app(ROOM.control).openapi()
SHAPES = DOCUMENT["components"]["schemas"]
TYPED = {
    (method.upper(), path): operation["requestBody"]["content"]["application/json"]["schema"]
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
    if path.startswith(ADMIN) and "requestBody" in operation
}
EXAMPLES = 3
WRONG = "mispelt"
Step = str | int


def sample(shape: dict[str, Any]) -> Any:  # noqa: ANN401  JSON
    """Return a value of this shape with every field of every object in it."""
    if "$ref" in shape:
        return sample(SHAPES[shape["$ref"].rpartition("/")[2]])
    if "anyOf" in shape:
        return sample(shape["anyOf"][0])
    if "enum" in shape:
        return shape["enum"][0]
    if shape["type"] == "array":
        return [sample(one) for one in shape.get("prefixItems", [shape.get("items")])]
    if shape["type"] == "object":
        return {name: sample(one) for name, one in shape.get("properties", {}).items()}
    return {"string": "x", "integer": 1, "number": 1.0, "boolean": True}[shape["type"]]


def objects(value: Any, path: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:  # noqa: ANN401  JSON
    """Yield where the objects of a body are, its own first."""
    if isinstance(value, dict):
        yield path
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        yield from objects(inner, (*path, step))


def misspelt(body: Any, path: tuple[Step, ...]) -> Any:  # noqa: ANN401  JSON
    """Return the body with one more field in one of its objects."""
    spoilt = copy.deepcopy(body)
    inner = spoilt
    for step in path:
        inner = inner[step]
    inner[WRONG] = 1
    return spoilt


def written(path: tuple[Step, ...]) -> str:
    return "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in (*path, WRONG)).lstrip(".")


def test_the_document_is_one() -> None:
    """It keeps OpenAPI's own rules, and every route that changes something by a body shows its type."""
    validate(DOCUMENT)
    assert len(TYPED) >= 17
    assert all(shape["type"] == "object" and not shape["additionalProperties"] for shape in TYPED.values())


def test_a_plan_can_be_changed_in_every_field() -> None:
    """The fields of a change are those of a plan."""
    assert set(PlanChange.model_fields) == set(Plan.__dataclass_fields__)


@pytest.mark.parametrize("route", sorted(TYPED), ids=" ".join)
async def test_an_unknown_field_is_refused_by_name(route: tuple[str, str], operator: httpx.AsyncClient) -> None:
    """In the body and in each object inside it: a misspelt bound is no bound that was never set."""
    body = sample(TYPED[route])
    places = list(objects(body))
    assert places
    for path in places:
        answer = await operator.request(route[0], route[1], json=misspelt(body, path))
        told = answer.json()["error"]
        assert (answer.status_code, told["param"]) == (400, written(path)), (path, told)
        assert told["message"] == "there is no such field"


@pytest.mark.parametrize(
    ("raw", "status"),
    [(b"", 400), (b"{", 400), (b'{"id": NaN}', 400), (b"[" * 100_000, 400), (b" " * (MAX_BODY_BYTES + 1), 413)],
    ids=["empty", "cut", "no number", "deep", "large"],
)
async def test_what_is_no_body_is_refused(raw: bytes, status: int, operator: httpx.AsyncClient) -> None:
    """Bodies are bounded in size and depth, and are JSON."""
    answer = await operator.post(f"{ADMIN}/tenants", content=raw)
    assert answer.status_code == status


async def test_types_are_strict(operator: httpx.AsyncClient) -> None:
    """A number is no word, and a bool is no number; the answer names the field."""
    for weight in ("2", True, 1.5):
        answer = await operator.post(f"{ADMIN}/tenants", json={"id": "acme", "plan": {"weight": weight}})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "plan.weight")


async def test_whoever_may_not_call_learns_nothing_of_bodies(room: Room) -> None:
    """The caller is known before a body is parsed: without a key, or with another tenant's, it is never 400."""
    async with room.client("") as stranger, room.client(await room.key(Role.AUDITOR)) as auditor:
        assert (await stranger.post(f"{ADMIN}/tenants", content=b"{")).status_code == 401
        assert (await auditor.post(f"{ADMIN}/tenants", content=b"{")).status_code == 403


def no_fault_of_ours(_: object, answer: Any, case: object) -> None:  # noqa: ANN401  schemathesis's own response
    """Check that nothing of ours broke."""
    assert answer.status_code < 500 or answer.status_code == 503, f"{case} was answered with {answer.status_code}"


CHECKS = (no_fault_of_ours, status_code_conformance, content_type_conformance, response_schema_conformance)
schema = schemathesis.openapi.from_asgi("/openapi.json", make_app(ROOM.control))


@pytest.fixture(scope="module")
def key() -> str:
    import asyncio

    return asyncio.run(ROOM.key(Role.ADMIN))


@schema.parametrize()
@hypothesis.settings(max_examples=EXAMPLES, derandomize=True, deadline=None, database=None)
def test_the_document_is_true(case: Any, key: str) -> None:  # noqa: ANN401  schemathesis's own case
    """Whatever the document's shapes produce, no answer is a fault of ours or one that it does not declare."""
    case.call_and_validate(headers={"authorization": f"Bearer {key}"}, checks=CHECKS)
