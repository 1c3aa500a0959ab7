"""The table of fields against the SDKs and the engine that are installed."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from pydantic import TypeAdapter
from vllm.exceptions import VLLMValidationError

from penstock.domain.errors import InvalidField
from penstock.domain.serving.request import JSON_APIS, Api
from penstock.gateway.openai.parse import Parsed, parse
from penstock.gateway.openai.verdicts import ANY, TABLE, Field
from scripts.fields import sources, table
from scripts.fields.deciding import Deciding
from scripts.fields.shapes import Shape, merged
from tests.support.samples.least_bodies import BODIES

pytestmark = pytest.mark.integration

BESIDE: dict[str, dict[str, Any]] = {
    "stream_options": {"stream": True},
    "best_of": {"n": 1},
}
"""What a field is documented to need."""
PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
TOOLS: dict[Api, dict[str, Any]] = {
    Api.CHAT: {"type": "function", "function": {"name": "f", "parameters": PARAMETERS}},
    Api.RESPONSES: {"type": "function", "name": "f", "parameters": PARAMETERS},
    Api.MESSAGES: {"name": "f", "input_schema": PARAMETERS},
}


def test_each_documented_field_has_a_verdict() -> None:
    """A newer SDK or engine with a field that the table does not know fails here, and so does a table out of date."""
    checked = subprocess.run(
        [sys.executable, "-m", "scripts.fields", "--check"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("nested", [("messages", "surprise"), ("surprise",), ("tools", "function", "surprise")])
def test_a_field_that_nobody_decided_is_found(nested: tuple[str, ...]) -> None:
    """A field planted into a source is missed, wherever it stands."""
    planted: dict[str, Any] = {"type": "string"}
    for name in reversed(nested):
        planted = {"type": "object", "properties": {name: planted}}
        if name in ("messages", "tools"):
            inside = planted["properties"][name]
            planted["properties"][name] = {"type": "array", "items": _kinded(inside, name)}
    rows = table.rows("everywhere") | table.rows("conversation") | table.rows("chat")
    deciding = Deciding(rows)
    deciding.decided(merged([*sources.schemas(Api.CHAT), planted]))
    assert [path for path in deciding.missing if path.endswith("surprise")]


def _kinded(inside: dict[str, Any], name: str) -> dict[str, Any]:
    key, value = ("role", "user") if name == "messages" else ("type", "function")
    return {**inside, "properties": {**inside["properties"], key: {"const": value}}, "required": [key]}


def _values(shape: Shape) -> Iterator[object]:
    """Yield null, each fixed value and both ends of a field's documented range."""
    yield None
    yield from sorted(shape.values or (), key=str)
    for bound in (shape.bounds or {}).values():
        yield int(bound) if "integer" in shape.types else bound


CASES = [
    (api, name, value)
    for api in JSON_APIS
    for name, shape in sorted(merged(sources.schemas(api)).fields.items())
    for value in _values(shape)
    if name not in BODIES[api] and name != "model"
]


def _beside(api: Api, name: str) -> dict[str, Any]:
    """Return what a request must send beside a field for the field to have an effect."""
    if name == "tool_choice":
        return {"tools": [TOOLS[api]]}
    return BESIDE.get(name, {}) if api.generates else {}


@pytest.mark.parametrize(("api", "name", "value"), CASES)
def test_each_documented_value_is_served_told_or_refused_by_name(api: Api, name: str, value: object) -> None:
    """Null is as if left out; fixed values and the ends of ranges meet the verdict of the table, never silence."""
    row = TABLE[api].kinds[ANY].fields[name]
    plain = {"model": "m", **BODIES[api], **_beside(api, name)}
    body = {**plain, name: value}
    parsed = _sent(api, body)
    if isinstance(parsed, InvalidField):
        assert value is not None
        assert "refused" in (row.verdict, _word(row, value)), parsed.message
        assert parsed.param == name
    elif value is None:
        assert parsed.body == plain
    elif _word(row, value) in ("told", "dropped"):
        assert any(told.split("=")[0] == name for told in parsed.told)
    else:
        assert parsed.body.get(name) == value or value is False


def _sent(api: Api, body: dict[str, Any]) -> Parsed | InvalidField:
    try:
        return parse(api, msgspec.json.encode(body))
    except InvalidField as error:
        return error


def _word(row: Field, value: object) -> str:
    return row.by_value.get(str(value).lower() if isinstance(value, bool) else str(value), (row.verdict,))[0]


@pytest.mark.parametrize("api", JSON_APIS)
def test_the_engine_takes_what_the_table_serves(api: Api) -> None:
    """What passes the table with a documented fixed value is valid to the engine's own request class."""
    models: list[TypeAdapter[Any]] = [
        TypeAdapter(sources.load(*one)) for one in sources.SOURCES[api] if one[0].startswith("vllm")
    ]
    refused = []
    for where, name, value in CASES:
        if where is not api or name in ("service_tier", "stream_options"):
            continue  # ours: it never reaches an engine
        parsed = _sent(api, {"model": "m", **BODIES[api], **_beside(api, name), name: value})
        if isinstance(parsed, Parsed) and not any(_is_valid(model, parsed.body) for model in models):
            refused.append((name, value))
    assert refused == []


def _is_valid(model: TypeAdapter[Any], body: dict[str, Any]) -> bool:
    try:
        model.validate_python(dict(body))
    except (ValueError, VLLMValidationError):
        return False
    return True
