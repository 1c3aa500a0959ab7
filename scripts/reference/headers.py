"""The page of headers: what callers may send and what answers carry, from the gateway's OpenAPI document."""

from collections.abc import Iterator, Mapping
from typing import Any

from penstock.gateway.app import openapi
from scripts.reference.markdown import code, table, titled

_LEAD = """What callers of the gateway may send and what its answers carry, as `GET /openapi.json` declares them.
A key comes as `Authorization: Bearer KEY` or as `x-api-key: KEY`. Tenant, priority and cache salt that a caller sends are
stripped: they follow from the key alone. Headers between gateway and worker are on [another page](wire.md)."""
_OTHER = """## Not in the document

| header | in | what |
|---|---|---|
| `x-penstock-version` | answers | The version that answered, as `name@digest12`. |
| `x-penstock-standing` | answers | `over-quota`: the request runs on spare capacity beyond its tenant's rates (`over_quota=yield`). |
| `x-penstock-code` | gRPC's trailers | The error's `code`. |
| `grpc-timeout` | gRPC's requests | The deadline, as gRPC writes it. |
| `x-penstock-prompt-tokens` … | gRPC's trailers | What is billed, and each stage's time, as in [answers' parameters](open-inference-protocol.md). |
| `x-penstock-next` | the operators' API | Where the next page of a list begins. |
"""

_FEW = 3


def page() -> str:
    """Return the whole page."""
    asked: dict[str, Any] = {}
    answered: dict[str, tuple[Any, set[str]]] = {}
    for operation in _operations():
        asked |= {one["name"]: one["schema"] for one in operation.get("parameters", ()) if one["in"] == "header"}
        for status, answer in operation["responses"].items():
            for name, header in answer.get("headers", {}).items():
                answered.setdefault(name, (header, set()))[1].add(status)
    requests = [(code(name), _form(schema), schema.get("description", "")) for name, schema in sorted(asked.items())]
    answers = [
        (code(name), _statuses(statuses), _form(header["schema"]), header.get("description", ""))
        for name, (header, statuses) in sorted(answered.items())
    ]
    return (
        titled("Headers", _LEAD)
        + f"\n## Requests\n\n{table(('header', 'form', 'what it does'), requests)}"
        + f"\n## Answers\n\n{table(('header', 'with status', 'form', 'what it says'), answers)}"
        + f"\n{_OTHER}"
    )


def _operations() -> Iterator[dict[str, Any]]:
    paths: Any = openapi.document()["paths"]
    for operations in paths.values():
        yield from (one for one in operations.values() if "responses" in one)


def _form(schema: Mapping[str, Any]) -> str:
    if "const" in schema:
        return code(schema["const"])
    if "enum" in schema:
        return ", ".join(code(one) for one in schema["enum"])
    bounds = {"minimum": "≥", "maximum": "≤", "maxLength": "characters ≤"}
    return ", ".join([schema["type"], *(f"{sign} {schema[name]}" for name, sign in bounds.items() if name in schema)])


def _statuses(statuses: set[str]) -> str:
    if len(statuses) <= _FEW:
        return ", ".join(sorted(statuses))
    return "any" if "200" in statuses else "any refusal"
