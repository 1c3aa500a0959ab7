"""Each field of each API's table is judged, but those that no model is shown; of media only what an engine decodes.

Fields and their shapes are the table's own: a new one is judged, or needs its reason here.
"""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.domain.serving.request import JSON_APIS, Api
from penstock.gateway.openai.verdicts import ANY, TABLE, Field
from penstock.gateway.safety.prompts import UNSEEN, texts
from tests.support.samples.calls import request

SECRET = "a blue-moon"
"""No Base64."""
NOT_SHOWN = {
    "model": "names a version",
    "user": "names the caller's user",
    "safety_identifier": "names the caller's user",
    "metadata": "the caller's own labels, handed back",
    "prompt_cache_key": "chooses a worker",
    "previous_response_id": "an id: the turns that it names are put into input, which is judged",
}
AS_TEXT = (
    "{}",
    "data: {}",
    "data:{}",
    "data:text/plain,{}",
    "data:text/plain;base64,{}",
    "data:image/png,{}",
    "data:image/png;base64,- {}",
    "data:image/png;name={};base64,AAAA",
)
DEEPEST = 7
LETTERS = "AKIAIOSFODNN7EXAMPLE"
CODED = base64.b64encode(bytes(42)).decode() + LETTERS
"""Right Base64 that has the letters of a key."""


def planted(field: Field, depth: int = DEEPEST) -> Iterator[object]:
    """Yield values of a field that hold the text, at each depth of the table."""
    yield SECRET
    yield {SECRET: 1}
    yield {"x": [{"y": SECRET}]}
    if depth and field.items is not None:
        yield from ([one] for one in planted(field.items, depth - 1))
    for name, kind in field.kinds.items() if depth else ():
        named = {field.key: name} if field.key and name != ANY else {}
        for inner, one in kind.fields.items():
            yield from ({**named, inner: value} for value in planted(one, depth - 1))


def judged(body: dict[str, Any], api: Api = Api.CHAT) -> str:
    return "\0".join(texts(request(api=api, body=body)))


@pytest.mark.parametrize("api", JSON_APIS)
def test_every_field_is_judged(api: Api) -> None:
    """Whatever a field of the table holds, at any depth, is judged, unless no model is shown that field."""
    assert set(NOT_SHOWN) == UNSEEN
    passed, count = set[str](), 0
    for name, field in TABLE[api].kinds[ANY].fields.items():
        for value in planted(field):
            count += 1
            if SECRET not in judged({name: value}, api):
                passed.add(name)
    assert passed == set(TABLE[api].kinds[ANY].fields) & UNSEEN
    assert count > 3 * len(TABLE[api].kinds[ANY].fields)


def part(kind: str, field: str, value: object) -> dict[str, object]:
    return {"role": "user", "content": [{"type": kind, field: value}]}


URL = f"data:image/png;base64,{CODED}"
SOURCE = {"type": "base64", "media_type": "image/png", "data": CODED}
MEDIA: list[tuple[Api, dict[str, Any]]] = [
    (Api.CHAT, {"messages": [part("image_url", "image_url", {"url": URL, "detail": "low"})]}),
    (Api.CHAT, {"messages": [part("image_url", "image_url", URL)]}),
    (Api.CHAT, {"messages": [part("audio_url", "audio_url", {"url": URL.replace("image/png", "audio/wav")})]}),
    (Api.CHAT, {"messages": [part("video_url", "video_url", {"url": URL.replace("image/png", "VIDEO/mp4")})]}),
    (Api.CHAT, {"messages": [part("input_audio", "input_audio", {"data": CODED, "format": "wav"})]}),
    (Api.RESPONSES, {"input": [part("input_image", "image_url", URL)]}),
    (Api.RESPONSES, {"input": [{"output": [{"type": "input_image", "image_url": URL}]}]}),
    (Api.MESSAGES, {"messages": [part("image", "source", SOURCE)]}),
    (Api.MESSAGES, {"messages": [part("tool_result", "content", [{"type": "image", "source": SOURCE}])]}),
]


@pytest.mark.parametrize(("api", "body"), MEDIA)
def test_a_picture_is_no_text(api: Api, body: dict[str, Any]) -> None:
    """Bytes of pictures and sounds are not judged: a key among their letters is none."""
    assert LETTERS not in judged(body, api)


@pytest.mark.parametrize("form", AS_TEXT)
@pytest.mark.parametrize(("api", "body"), MEDIA)
def test_text_that_looks_like_an_address_is_judged(api: Api, body: dict[str, Any], form: str) -> None:
    """What an engine does not decode as a picture or sound is text, in a field of media as in any other."""
    said = form.format(SECRET)
    tried = re.sub(rf"(data:[\w/]+;base64,)?{re.escape(CODED)}", said, json.dumps(body), flags=re.IGNORECASE)
    assert said in tried
    assert SECRET in judged(json.loads(tried), api)
    for prompt in ({"prompt": said}, {"input": [said]}, {"messages": [{"role": "user", "content": said}]}):
        assert SECRET in judged(prompt, api)


@pytest.mark.parametrize(("api", "body"), MEDIA)
def test_a_picture_elsewhere_is_text(api: Api, body: dict[str, Any]) -> None:
    """The same part as a template's argument, in a tool's schema, or among a tool's arguments is text."""
    for name in ("chat_template_kwargs", "tools", "documents", "response_format"):
        assert LETTERS in judged({name: body}, api)
    (turns,) = body.values()
    for turn in ({"tool_calls": [{"function": {"arguments": turns}}]}, part("tool_use", "input", turns)):
        assert LETTERS in judged({"messages": [turn]}, api)


@pytest.mark.parametrize("number", [4111111111111111, 4111111111111111.0])
def test_numbers_are_judged(number: float) -> None:
    """A model is shown the numbers of schemas and template arguments too."""
    for value in ({"card": number}, [number], [{"const": number}], ["x", number]):
        assert "4111111111111111" in judged({"chat_template_kwargs": {"x": value}})


@pytest.mark.parametrize("kind", ["text", "thinking", "refusal"])
def test_parts_of_a_message_are_one_text(kind: str) -> None:
    """Engines join them, by line ends or by nothing; plain strings are parts as well."""
    halves = [{"type": kind, kind: SECRET[:7]}, {"type": kind, kind: SECRET[7:]}]
    assert SECRET in judged({"messages": [{"role": "assistant", "content": halves}]})
    assert SECRET in judged({"messages": [{"role": "user", "content": [SECRET[:7], SECRET[7:]]}]})
    assert SECRET in judged({"messages": [{"role": "user", "content": [{"text": "x", kind: SECRET}, {"text": "y"}]}]})
    assert SECRET in judged({"system": [{"text": SECRET[:7]}, {"text": SECRET[7:]}]}, Api.MESSAGES)
