from typing import Any

import msgspec
import pytest

from penstock.domain.errors import UnsupportedField
from penstock.domain.serving.request import JSON_APIS, Api
from penstock.gateway.openai.parse import parse
from penstock.gateway.openai.unserved import UNSERVED

TURNS = [{"role": "user", "content": "hi"}]
BODIES: dict[Api, dict[str, Any]] = {
    Api.CHAT: {"messages": TURNS},
    Api.COMPLETIONS: {"prompt": "hi"},
    Api.EMBEDDINGS: {"input": "hi"},
    Api.CLASSIFY: {"input": "hi"},
    Api.RESPONSES: {"input": "hi"},
    Api.MESSAGES: {"messages": TURNS, "max_tokens": 9},
}
ASKS: dict[str, Any] = {
    "functions": [{"name": "f", "parameters": {}}],
    "function_call": "auto",
    "modalities": ["text", "audio"],
    "audio": {"voice": "alloy", "format": "wav"},
    "verbosity": "low",
    "web_search_options": {},
    "store": True,
    "context_management": [{"type": "compaction"}],
    "mcp_servers": [{"type": "url", "url": "https://example.com"}],
}
INFORMS: dict[str, Any] = {
    "user": "u",
    "metadata": {"a": "b"},
    "store": False,
    "service_tier": "auto",
    "prompt_cache_key": "k",
    "safety_identifier": "s",
    "prediction": {"type": "content", "content": "x"},
    "modalities": ["text"],
    "verbosity": "medium",
    "functions": [],
    "n": 2,
    "best_of": 2,
}


def sent(api: Api, **fields: object) -> object:
    return parse(api, msgspec.json.encode({"model": "m", **BODIES[api], **fields})).body


@pytest.mark.parametrize("name", sorted(UNSERVED))
def test_a_field_that_nobody_serves_is_refused_with_the_remedy(name: str) -> None:
    """What an engine would drop without a word is a 400 that names the field and says what to do."""
    for api in UNSERVED[name].apis:
        with pytest.raises(UnsupportedField) as caught:
            sent(api, **{name: ASKS.get(name, "x")})
        assert caught.value.param == name
        assert caught.value.code == "unsupported_field"
        assert UNSERVED[name].remedy in caught.value.message


@pytest.mark.parametrize(("n", "best_of"), [(None, 2), (1, 3), (2, 4)])
@pytest.mark.parametrize("api", [Api.CHAT, Api.COMPLETIONS])
def test_the_best_of_more_answers_is_refused(api: Api, n: int | None, best_of: int) -> None:
    """An engine that knows no best_of would give n answers of n, and the caller would believe they were chosen."""
    with pytest.raises(UnsupportedField, match="ask for n answers") as caught:
        sent(api, n=n, best_of=best_of)
    assert caught.value.param == "best_of"


@pytest.mark.parametrize("name", sorted(INFORMS))
def test_what_merely_informs_is_taken(name: str) -> None:
    """Fields that change nothing about the answer, and values that ask for what happens anyway, are no fault."""
    sent(Api.CHAT, n=2, **{name: INFORMS[name]} if name != "n" else {})


@pytest.mark.parametrize("name", sorted(UNSERVED))
def test_null_is_silence(name: str) -> None:
    """A field that is null asks for nothing."""
    for api in JSON_APIS:
        if name not in BODIES[api]:
            sent(api, **{name: None})
