import copy
from typing import Any

import msgspec
import pytest

from penstock.domain.errors import InvalidField, UnsupportedField
from penstock.domain.serving.request import JSON_APIS, Api
from penstock.gateway.openai import documented
from penstock.gateway.openai.parse import Parsed, parse
from penstock.gateway.openai.verdicts import ANY, TABLE, Field
from tests.support.samples.least_bodies import BODIES

REFUSED: list[tuple[Api, dict[str, Any], str, str]] = [
    (Api.CHAT, {"functions": [{"name": "f"}]}, "functions", "send tools"),
    (Api.CHAT, {"function_call": "auto"}, "function_call", "send tool_choice"),
    (Api.CHAT, {"modalities": ["text", "audio"]}, "modalities[1]", "answers are text"),
    (Api.CHAT, {"audio": {"voice": "alloy"}}, "audio", "answers are text"),
    (Api.CHAT, {"verbosity": "low"}, "verbosity", "say in the prompt"),
    (Api.CHAT, {"web_search_options": {}}, "web_search_options", "offer a tool"),
    (Api.CHAT, {"store": True}, "store", "send false"),
    (Api.CHAT, {"moderation": {"model": "x"}}, "moderation", "packs"),
    (Api.CHAT, {"guided_json": {"type": "object"}}, "guided_json", "structured_outputs"),
    (Api.CHAT, {"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type", "functions"),
    (Api.CHAT, {"temprature": 1}, "temprature", "no field of this API"),
    (Api.CHAT, {"stream": True, "stream_options": {"usage": True}}, "stream_options.usage", "no field of this API"),
    (Api.RESPONSES, {"conversation": "c"}, "conversation", "send previous_response_id"),
    (Api.RESPONSES, {"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].type", "previous_response_id"),
    (Api.RESPONSES, {"text": {"verbosity": "high"}}, "text.verbosity", "say in the prompt"),
    (Api.RESPONSES, {"tools": [{"type": "web_search"}]}, "tools[0].type", "offer a function"),
    (Api.MESSAGES, {"mcp_servers": [{"type": "url"}]}, "mcp_servers", "offer tools"),
    (Api.MESSAGES, {"thinking": {"type": "between_tools"}}, "thinking.type", "enabled, disabled"),
    (Api.EMBEDDINGS, {"stream": True}, "stream", "one answer"),
]
WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"messages": [{"role": "user", "content": [{"type": "foo"}]}]}, "messages[0].content[0].type", "one of"),
    ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages[0].content[0].text", "no field"),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"type": "function"}]}]},
        "messages[0].tool_calls[0]",
        "is req",
    ),
    ({"tools": [{"type": "function", "function": {"name": 3}}]}, "tools[0].function.name", "must be a string"),
    ({"stop": ["a"] * 5}, "stop", "at most 4 items"),
    ({"stop": ["a", 1]}, "stop[1]", "must be a string"),
    ({"reasoning_effort": "much"}, "reasoning_effort", "one of"),
    ({"tool_choice": "all"}, "tool_choice", "one of"),
    ({"response_format": {"type": "xml"}}, "response_format.type", "one of"),
    ({"response_format": "json"}, "response_format", "an object"),
    ({"logprobs": 3}, "logprobs", "true or false"),
    ({"truncate_prompt_tokens": -2}, "truncate_prompt_tokens", "at least -1"),
]


def sent(api: Api, **fields: object) -> Parsed:
    return parse(api, msgspec.json.encode({"model": "m", **BODIES[api], **fields}))


@pytest.mark.parametrize(("api", "fields", "path", "says"), REFUSED)
def test_a_field_that_nobody_serves_is_refused_with_the_remedy(
    api: Api, fields: dict[str, Any], path: str, says: str
) -> None:
    """What an engine would drop without a word is a 400 that names the field and says what to do."""
    with pytest.raises(UnsupportedField) as caught:
        sent(api, **fields)
    assert caught.value.param == path
    assert says in caught.value.message


@pytest.mark.parametrize(("fields", "path", "says"), WRONG)
def test_a_wrong_value_is_named_by_its_whole_path(fields: dict[str, Any], path: str, says: str) -> None:
    """Neither a list's items nor an object's members lose the beginning of their path."""
    with pytest.raises(InvalidField, match=says) as caught:
        sent(Api.CHAT, **fields)
    assert str(caught.value.param).startswith(path)


def test_what_has_no_effect_is_told() -> None:
    """Fields that change nothing are taken and named; those of the platform's own to decide never go on."""
    parsed = sent(Api.CHAT, user="u", metadata={"a": "b"}, priority=1, prompt_cache_retention="24h")
    assert parsed.told == ("metadata", "priority", "prompt_cache_retention", "user")
    assert parsed.body.keys() == {"model", "messages", "user", "metadata"}


@pytest.mark.parametrize(
    "asks", [{"store": False}, {"modalities": ["text"]}, {"verbosity": "medium"}, {"functions": []}]
)
def test_what_asks_for_nothing_is_taken(asks: dict[str, object]) -> None:
    """Values that ask for what happens anyway are no fault."""
    assert sent(Api.CHAT, **asks).told == ()


@pytest.mark.parametrize("api", JSON_APIS)
def test_a_callers_own_name_is_shown_short(api: Api) -> None:
    """A refusal does not grow with a name that the caller made up."""
    with pytest.raises(UnsupportedField) as caught:
        sent(api, **{"x" * 1_000_000: 1})
    assert len(caught.value.message) + len(str(caught.value.param)) < 300


@pytest.mark.parametrize(("n", "best_of"), [(None, 2), (1, 3), (2, 4)])
def test_the_best_of_more_answers_is_refused(n: int | None, best_of: int) -> None:
    """An engine that knows no best_of would give n answers of n, and the caller would believe they were chosen."""
    with pytest.raises(UnsupportedField, match="ask for n answers") as caught:
        sent(Api.COMPLETIONS, n=n, best_of=best_of)
    assert caught.value.param == "best_of"


def plain_or_not() -> list[tuple[Api, dict[str, Any]]]:
    """Return bodies with one object of each list: each named kind, each of its fields, values of each JSON type."""
    values: list[Any] = ["text", "", 1, 1.5, True, None, [], ["x"], {}, {"type": "text"}]
    return [
        (api, {name: [{**({field.items.key: said} if said != ANY else {}), inner: value}]})
        for api, root in TABLE.items()
        for name, field in root.kinds[ANY].fields.items()
        if field.items is not None and field.items.key
        for said, kind in field.items.kinds.items()
        for inner in [*kind.fields, "unknown"]
        for value in values
    ]


def checked(api: Api, body: dict[str, Any]) -> tuple[object, object]:
    """Return the fields told or the refusal, and the body that is left."""
    given = copy.deepcopy(body)
    try:
        return documented.check(api, given), given
    except (InvalidField, UnsupportedField) as refused:
        return (type(refused), refused.param, str(refused)), given


def test_objects_that_are_plain_at_a_glance_are_what_a_full_check_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The glance lets nothing pass that a full check refuses, tells or removes; and it does let plain messages pass."""
    bodies = plain_or_not()
    glanced = [checked(api, body) for api, body in bodies]
    user = TABLE[Api.CHAT].kinds[ANY].fields["messages"].items
    assert user is not None
    assert user.is_plain({"role": "user", "content": "Hello"})
    assert not user.is_plain({"role": ["user"], "content": "Hello"})
    monkeypatch.setattr(Field, "is_plain", lambda *_: False)
    assert len(bodies) > 1000
    assert glanced == [checked(api, body) for api, body in bodies]
