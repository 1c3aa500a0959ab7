"""Names that a caller wrote stand in errors: each is printable and short, wherever the name was."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.domain.errors import BadRequest, PenstockError
from penstock.domain.serving.request import JSON_APIS, Api
from penstock.gateway.oip import json_wire
from penstock.gateway.openai import parse
from penstock.gateway.openai.depth import MAX_DEPTH
from tests.support.samples.least_bodies import BODIES

ODD = "a\x1b]0;\x07\r\n\x9b2J\u202e\u2028b"
"""Steers a terminal, forges a line of a log, and turns the direction of writing."""
LONG = ODD * 10_000
MOST_CHARS = 600
DEEP: dict[str, Any] = {"image_url": "http://x/"}
for _ in range(MAX_DEPTH - 12):
    DEEP = {ODD: DEEP}
VALUES: tuple[Any, ...] = (
    1,
    "x",
    {},
    {"image_url": "http://x/"},
    {"type": "string", "not": {}},
    {"type": "object", "properties": {ODD: {"not": {}}}},
    {"schema": {"properties": {ODD: {"not": {}}}}},
    DEEP,
)
FUNCTION: dict[str, Any] = {
    "name": "f",
    "strict": True,
    "parameters": {"type": "object", "properties": {"a": {"type": "string"}}},
}
SCHEMA: dict[str, Any] = {"type": "json_schema", "json_schema": {"name": "s", "schema": FUNCTION["parameters"]}}
CHAT: dict[str, Any] = {
    "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    "tools": [{"type": "function", "function": FUNCTION}],
    "response_format": SCHEMA,
    "logit_bias": {"1": 1},
    "metadata": {"a": "b"},
    "chat_template_kwargs": {"a": {"b": 1}},
}
RICH: dict[Api, dict[str, Any]] = {
    Api.CHAT: CHAT,
    Api.COMPLETIONS: {"prompt": "hi", "structured_outputs": {"json": FUNCTION["parameters"]}},
    Api.RESPONSES: {
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        "tools": [{"type": "function", **FUNCTION}],
        "metadata": {"a": "b"},
        "text": {"format": {"type": "json_schema", "name": "s", "schema": FUNCTION["parameters"]}},
    },
    Api.MESSAGES: {
        **BODIES[Api.MESSAGES],
        "messages": CHAT["messages"],
        "tools": [{"name": "f", "input_schema": FUNCTION["parameters"]}],
        "metadata": {},
    },
}
TENSOR: dict[str, Any] = {"name": "x", "datatype": "INT32", "shape": [1], "data": [1]}
INFER: dict[str, Any] = {"inputs": [TENSOR], "outputs": [{"name": "y"}], "parameters": {"a": 1}}


def odd(value: Any, name: str) -> Iterator[Any]:  # noqa: ANN401  any JSON
    """Yield copies of a JSON value, each with an odd name in one of its objects."""
    if isinstance(value, dict):
        yield from ({**value, name: one} for one in VALUES)
        for key, child in value.items():
            yield {name if one == key else one: kept for one, kept in value.items()}
            yield from ({**value, key: changed} for changed in odd(child, name))
            if isinstance(child, str):
                yield {**value, key: name}
    elif isinstance(value, list):
        for at, child in enumerate(value):
            yield from ([*value[:at], changed, *value[at + 1 :]] for changed in odd(child, name))


def refusal(api: Api, body: Any) -> BadRequest | None:  # noqa: ANN401  any JSON
    raw = json.dumps(body).encode()
    try:
        if api is Api.INFER:
            json_wire.read(raw)
        else:
            parse.parse(api, raw)
    except BadRequest as error:
        return error
    return None


@pytest.mark.parametrize("name", [ODD, LONG], ids=["odd", "long"])
@pytest.mark.parametrize("api", [*JSON_APIS, Api.INFER])
def test_a_name_in_an_error_is_printable_and_short(api: Api, name: str) -> None:
    """Each object of a body in turn has such a name, and each text is one."""
    whole = INFER if api is Api.INFER else {"model": "m", **RICH.get(api, BODIES.get(api, {}))}
    assert refusal(api, whole) is None
    refused = [error for body in odd(whole, name) if (error := refusal(api, body)) is not None]
    assert len(refused) > len(VALUES)
    for error in refused:
        for said in (error.message, error.param or ""):
            assert said.isprintable()
            assert len(said) <= MOST_CHARS


def test_any_error_is_printable() -> None:
    """Those of other rooms too: what is raised has no control character left."""
    error = PenstockError(f"no {ODD}", param=ODD)
    assert error.message.isprintable()
    assert (str(error), error.param) == (error.message, "a?]0;????2J??b")
