"""Whether an answer is JSON, read from real vLLM's own bytes: worded otherwise it would be left unread.

What was said is read by the official SDK, and judged by Python's own parser.
"""

import json
from typing import Any

import pytest
from openai import OpenAI

from penstock.gateway.streaming import comparable

pytestmark = pytest.mark.integration

SCHEMA = {
    "type": "object",
    "properties": {"town": {"type": "string", "maxLength": 12}},
    "required": ["town"],
    "additionalProperties": False,
}
FORMS: dict[str, dict[str, Any]] = {
    "schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "town", "schema": SCHEMA}}},
    "vLLM's own field": {"extra_body": {"structured_outputs": {"json": SCHEMA}}},
    "nothing": {},
}


def _is_json(said: str) -> bool:
    try:
        json.loads(said)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
def test_what_vllm_said_is_read_as_its_callers_read_it(client: OpenAI, form: str, *, is_stream: bool) -> None:
    """Asked for by a grammar it is JSON, without one this model's prose is not: seen in its bytes both times."""
    asked: dict[str, Any] = {
        "model": "smollm2",
        "messages": [{"role": "user", "content": "Name a town as an object with the field town."}],
        "max_tokens": 60,
        "temperature": 0.0,
        **FORMS[form],
    }
    chat = client.chat.completions.with_raw_response.create(**asked, stream=is_stream)
    body = chat.http_response.read()
    if is_stream:
        kept = comparable.KeptEvents()
        take = kept.over(lambda events: (len(events), events))
        for at in range(0, len(body), 700):
            take(body[at : at + 700])
        seen = kept.is_json()
        events = [line.removeprefix("data: ") for line in body.decode().splitlines() if line.startswith("data: {")]
        choices = [choice for event in events for choice in json.loads(event)["choices"]]
        said = "".join(choice["delta"].get("content") or "" for choice in choices)
    else:
        seen, said = comparable.whole(body), json.loads(body)["choices"][0]["message"]["content"]
    assert said
    assert seen is _is_json(said)
    assert seen is (form != "nothing")
