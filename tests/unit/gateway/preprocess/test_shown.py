"""What a version's chat template leaves out is refused or told, by what the routing table says of it."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.domain.errors import UnsupportedByModel
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.serving.request import Api
from penstock.formats.abilities import Ability, abilities
from penstock.formats.chat_template import ChatTemplate
from penstock.gateway.preprocess import shown
from tests.support.models import tokenizers
from tests.support.models.prompt_counter import counter_of
from tests.support.samples.calls import VERSION

PLAIN = "{% for one in messages %}{{ one.role }}: {{ one.content }}{% endfor %}"
NAMED = "{% for one in messages %}{{ one.name }}: {{ one.content }}{% endfor %}"
THINKS = PLAIN + "{% if enable_thinking %}think{% endif %}"
EFFORTS = PLAIN + "{{ reasoning_effort }}"
READS_IT_ONLY = PLAIN + "{% if reasoning_effort %}{% endif %}"
USER = {"role": "user", "content": "hi"}
ANNA = {**USER, "name": "anna"}


def version_of(template: str) -> VersionEntry:
    """Return a version as its table tells it."""
    return replace(VERSION, chat_template=template, renders=tuple(map(str, abilities(template))))


def unread(template: str, api: Api, **body: Any) -> tuple[str, ...]:  # noqa: ANN401  any field
    compiled = ChatTemplate(template, lambda: datetime.fromtimestamp(0, tz=UTC))
    return shown.unread(api, body, version_of(template), compiled)


@pytest.mark.parametrize(
    ("api", "body", "told"),
    [
        (Api.CHAT, {"messages": [ANNA]}, "messages[].name"),
        (Api.CHAT, {"reasoning_effort": "high"}, "reasoning_effort"),
        (Api.RESPONSES, {"reasoning": {"effort": "low"}}, "reasoning.effort"),
        (Api.MESSAGES, {"output_config": {"effort": "max"}}, "output_config.effort"),
        (Api.MESSAGES, {"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking"),
        (Api.CHAT, {"chat_template_kwargs": {"mood": "good"}}, "chat_template_kwargs.mood"),
    ],
)
def test_what_a_template_does_not_read_is_told(api: Api, body: dict[str, Any], told: str) -> None:
    """Each field that only a template can serve is named if this one does not."""
    assert unread(PLAIN, api, **body) == (told,)


@pytest.mark.parametrize(
    ("template", "api", "body"),
    [
        (NAMED, Api.CHAT, {"messages": [ANNA]}),
        (THINKS, Api.CHAT, {"reasoning_effort": "high"}),
        (EFFORTS, Api.RESPONSES, {"reasoning": {"effort": "low"}}),
        (THINKS, Api.MESSAGES, {"thinking": {"type": "enabled"}}),
        (THINKS, Api.CHAT, {"chat_template_kwargs": {"enable_thinking": False}}),
        (PLAIN, Api.CHAT, {"messages": [USER], "reasoning_effort": "none"}),
        (PLAIN, Api.CHAT, {"messages": [{**USER, "role": "tool", "name": "clock"}]}),
        (PLAIN, Api.MESSAGES, {"thinking": {"type": "disabled"}}),
        (PLAIN, Api.CHAT, {"messages": "none", "chat_template_kwargs": 5, "reasoning_effort": None}),
    ],
)
def test_what_is_served_is_not_told(template: str, api: Api, body: dict[str, Any]) -> None:
    """Neither is what asks for nothing."""
    assert unread(template, api, **body) == ()


def test_a_variable_without_an_effect_is_no_ability() -> None:
    """The template names the effort and says the same for each."""
    assert Ability.EFFORT not in abilities(READS_IT_ONLY)
    assert unread(READS_IT_ONLY, Api.CHAT, reasoning_effort="high") == ("reasoning_effort",)


def test_told_names_do_not_grow_with_the_callers_input() -> None:
    """A key of a megabyte, or a thousand keys, is told in short, and no line end reaches a header."""
    keys = {"x" * 1_000_000: 1, "a\r\nset-cookie: b": 1, "naïve": 1} | {f"k{at}": 1 for at in range(1_000)}
    told = unread(PLAIN, Api.CHAT, chat_template_kwargs=keys)
    assert len(", ".join(told)) < 600
    assert all(one.isascii() and one.isprintable() for one in told)


def test_a_table_that_says_nothing_refuses_nothing() -> None:
    """An older controller's table has no such field."""
    silent = replace(version_of(PLAIN), renders=None)
    body = {"tools": [{"type": "function", "function": {"name": "f"}}]}
    shown.check_tools(body, silent)
    with pytest.raises(UnsupportedByModel):
        shown.check_tools(body, version_of(PLAIN))


async def test_what_is_told_comes_with_the_prompts_count() -> None:
    """It goes on to the answer, also for a prompt that only the engine can count."""
    counter = counter_of(tokenizers.small())
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    for content in ("hi", [{"type": "text", "text": "hi"}, image]):
        body = {"messages": [{"role": "user", "content": content}], "reasoning_effort": "high"}
        prepared = await counter.count(body, renders=("system",))
        assert prepared.told == ("reasoning_effort",)
    counter.preprocessor.close()


@pytest.mark.parametrize(
    ("api", "message", "told"),
    [
        (Api.CHAT, {"role": "user", "content": "x", "reasoning": "long"}, ("messages[].reasoning",)),
        (Api.CHAT, {"role": "user", "content": "x", "task": "t"}, ("messages[].task",)),
        (Api.MESSAGES, {"role": "assistant", "content": "x"}, ()),
        (Api.EMBEDDINGS, {"role": "assistant", "content": "x"}, ()),
        (Api.CHAT, {"role": "assistant", "content": "x"}, ("messages[-1]",)),
        (Api.CHAT, {"role": "user", "content": "x"}, ()),
    ],
)
def test_a_field_of_a_message_that_no_template_reads_is_told(
    api: Api, message: dict[str, Any], told: tuple[str, ...]
) -> None:
    """So is a beginning of the answer that the model does not continue."""
    assert unread(PLAIN, api, messages=[message]) == told
