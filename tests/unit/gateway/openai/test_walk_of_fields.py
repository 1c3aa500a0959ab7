"""Each field of the table, at each depth, over the real listener: the answer is the table's verdict, and never a 5xx.

Fields, values and ranges are the table's own: a new row needs no line here.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from penstock.domain.serving.request import JSON_APIS, Api
from penstock.gateway.openai.verdicts import ANY, TABLE, Field, Kind
from tests.support.gateways.server import Client, on_uvloop
from tests.support.gateways.toy import SECRET, Running, running
from tests.support.samples.least_bodies import BODIES

DEEPEST = 5
MOST_BYTES = 2_000
LARGE = "x" * (1 << 20)
WRONG: dict[str, Any] = {"string": 7, "boolean": "yes", "integer": "one", "number": "one", "array": 7, "object": 7}
NOTHING: tuple[Any, ...] = (None, False, [], {})
BOUNDED = frozenset({"thinking.budget_tokens"})
"""Fields without effect whose values are checked as their provider does."""
Wrap = Callable[[Any], dict[str, Any]]


@dataclass(frozen=True)
class Case:
    api: Api
    path: str
    field: Field
    value: Any
    body: dict[str, Any]


def valued(field: Field, word: str) -> Any:  # noqa: ANN401  any field's
    return word == "true" if word in ("true", "false") and "boolean" in field.types else word


def tried(field: Field) -> Iterator[Any]:
    """Yield null, each fixed value, both sides of each end of the range, and a value of another type."""
    yield None
    yield from (valued(field, word) for word in field.by_value)
    step = 1 if "integer" in field.types else 0.01
    for end, outward in (("minimum", -step), ("maximum", step)):
        if (bound := field.bounds.get(end)) is not None:
            yield from (bound, bound + outward)
    if "any" not in field.types and (kind := next(iter(sorted(field.types)), "")):
        yield WRONG[kind]
    if not field.by_value:
        yield least(field)


def least(field: Field) -> Any:  # noqa: ANN401  any field's
    """Return a small value that the field is documented to take."""
    for word, (verdict, _) in field.by_value.items():
        if verdict == "served":
            return valued(field, word)
    for kind, value in (("string", "x"), ("any", "x"), ("boolean", True), ("array", [])):
        if kind in field.types:
            return value
    if field.types & {"integer", "number"}:
        return field.bounds.get("minimum", 1)
    return next((said for said, _ in kinds(field)), {})


def kinds(field: Field) -> Iterator[tuple[dict[str, Any], Kind]]:
    """Yield the least object of each kind that is served."""
    for name, kind in field.kinds.items():
        if kind.says:
            continue
        said = {one: least(kind.fields[one]) for one in kind.required if one in kind.fields}
        yield (said if name == ANY or not field.key else {**said, field.key: name}), kind


def inside(api: Api, kind: Kind, said: dict[str, Any], wrap: Wrap, path: str, depth: int = 1) -> Iterator[Case]:
    for name, field in kind.fields.items():
        where = f"{path}.{name}".lstrip(".")

        def put(value: Any, name: str = name) -> dict[str, Any]:  # noqa: ANN401  any field's
            return wrap({**said, name: value})

        yield from of_field(api, field, put, where, depth)
        if field.items is not None and field.is_served:
            yield from of_field(api, field.items, partial(listed, put), f"{where}[0]", depth)


def listed(put: Wrap, value: Any) -> dict[str, Any]:  # noqa: ANN401  any field's
    return put([value])


def of_field(api: Api, field: Field, put: Wrap, path: str, depth: int) -> Iterator[Case]:
    for value in tried(field):
        yield Case(api, path, field, value, put(value))
    if field.is_served and depth < DEEPEST:
        for said, kind in kinds(field):
            yield from inside(api, kind, said, put, path, depth + 1)


def cases(api: Api) -> list[Case]:
    """Return each path with each value once, though several kinds of objects have it."""
    plain = {"model": "m", **BODIES[api]}
    found = inside(api, TABLE[api].kinds[ANY], plain, lambda body: body, "")
    return list({(case.path, repr(case.value)): case for case in found}.values())


async def ask(client: Client, api: Api, body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
    data = json.dumps(body).encode()
    head = f"POST {api} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {SECRET}\r\ncontent-length: {len(data)}\r\n\r\n"
    client.send(head.encode() + data)
    return await client.response()


def fault(case: Case, status: int, headers: dict[str, str], answer: bytes) -> str:
    """Return what of an answer contradicts the table; empty if nothing does."""
    error = json.loads(answer).get("error", {}) if status == 400 else {}
    param = error.get("param") or ""
    word = str(case.value).lower() if isinstance(case.value, bool) else str(case.value)
    verdict = case.field.by_value.get(word, (case.field.verdict,))[0] if case.value is not None else "null"
    is_told, is_refused = verdict in ("told", "dropped"), verdict == "refused" and case.value not in NOTHING
    root = case.path.partition(".")[0].partition("[")[0]
    found = {
        f"status {status}": status not in (200, 400),
        "a 400 that names no field": status == 400 and not param,
        f"{len(answer)} bytes": len(answer) > MOST_BYTES,
        f"is refused, and heard {status} {param}": is_refused and (status != 400 or param != case.path),
        "is told, and was refused": is_told
        and param == case.path
        and case.value not in WRONG.values()
        and case.path not in BOUNDED,
        "is told, and passed in silence": is_told
        and status == 200
        and case.field.path not in headers.get("x-penstock-ignored", ""),
        f"another field is named: {param}": status == 400 and root not in param,
    }
    return ", ".join(says for says, holds in found.items() if holds)


async def walked(gateway: Running, api: Api) -> list[str]:
    client, faults = await Client.to(gateway), Counter[str]()
    for case in cases(api):
        status, headers, answer = await ask(client, api, case.body)
        if says := fault(case, status, headers, answer):
            faults[f"{api} {case.path}={case.value!r:.40}: {says}"] += 1
        if headers.get("connection") == "close":
            client = await Client.to(gateway)
    await client.close()
    return list(faults)


@on_uvloop
async def test_each_field_meets_its_verdict_over_the_listener() -> None:
    """Nulls, fixed values, ends of ranges and other types, down to fields of parts of messages."""
    async with running() as gateway:
        found = [one for api in JSON_APIS for one in await walked(gateway, api)]
        assert found == []
        assert gateway.toy.seen.crashed == []


@on_uvloop
async def test_no_error_grows_with_a_megabyte() -> None:
    """Each field at the top of each body, as a text, a list of texts and an object's name."""
    async with running() as gateway:
        for api in JSON_APIS:
            for name in TABLE[api].kinds[ANY].fields:
                for value in (LARGE, [LARGE], {LARGE: 1}):
                    client = await Client.to(gateway)
                    status, _, answer = await ask(client, api, {"model": "m", **BODIES[api], name: value})
                    assert status < 500, (api, name)
                    assert status == 200 or len(answer) < MOST_BYTES, (api, name)
                    await client.close()
        assert gateway.toy.seen.crashed == []


def test_the_walk_reaches_each_row() -> None:
    """All but the insides of what is refused, and of what holds itself."""
    assert sum(len({case.path for case in cases(api)}) for api in JSON_APIS) > 600
