"""What only the engine renders is bounded from above; what looks so and is not, is counted exactly."""

import json
from typing import Any

import pytest

from penstock.domain.serving.request import Api
from tests.support.models.prompt_counter import Counter

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "What is the capital of France?"}
THINKING_TEMPLATE = (
    "{% if reasoning_effort is defined %}effort: {{ reasoning_effort }} {% endif %}"
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if enable_thinking is defined and enable_thinking %}<think>{% endif %}"
)
DEVELOPER: dict[str, Any] = {"role": "developer", "content": "Be kind."}


@pytest.mark.parametrize(
    ("api", "body"),
    [
        (Api.MESSAGES, {"messages": [USER], "tools": [{"name": "t"}]}),
        (Api.MESSAGES, {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "input": {}}]}]}),
        (Api.RESPONSES, {"input": "x", "previous_response_id": "r"}),
        (Api.RESPONSES, {"input": [{"type": "reasoning", "summary": []}]}),
        (Api.RESPONSES, {"input": "x", "tools": [{"type": "web_search"}]}),
        (Api.RESPONSES, {"input": [{"role": "assistant", "content": "Once", "status": "incomplete"}]}),
    ],
)
async def test_what_is_not_counted_is_bounded_and_never_free(counter: Counter, api: Api, body: dict[str, Any]) -> None:
    """Finding 3: where only the engine can render a prompt, it counts as its bytes, and at most as the context."""
    template = f"{{{{ tools | tojson }}}}{counter.version.chat_template}" if "tools" in body else ""
    changes: dict[str, Any] = {"chat_template": template} if template else {}
    short = await counter.count(body, api, **changes)
    long = await counter.count({**body, "metadata": {"x": "y" * 500}}, api, **changes)
    assert not short.is_counted
    assert len(json.dumps(body)) < short.prompt_tokens < long.prompt_tokens < counter.version.max_model_len
    endless = await counter.count({**body, "metadata": {"x": "y" * 50_000}}, api, **changes)
    assert endless.prompt_tokens == counter.version.max_model_len


@pytest.mark.parametrize("effort", ["none", "low", "high"])
@pytest.mark.parametrize("template", ["", THINKING_TEMPLATE])
async def test_reasoning_effort_is_counted_exactly(counter: Counter, effort: str, template: str) -> None:
    """Finding 3: how much to think changes nothing in a template without the word for it, and is shown by one with."""
    body = {"messages": [SYSTEM, USER], "reasoning_effort": effort}
    changes: dict[str, Any] = {"chat_template": template} if template else {}
    told: dict[str, Any] = {"reasoning_effort": effort, "enable_thinking": effort != "none"} if template else {}
    expected = counter.expected([SYSTEM, USER], template, add_generation_prompt=True, **told)
    prepared = await counter.count(body, **changes)
    assert (prepared.prompt_tokens, prepared.is_counted) == (expected, True)
    responses = {"input": "Hi", "reasoning": {"effort": effort}, "text": {"format": {"type": "text"}}}
    hi = counter.expected([{"role": "user", "content": "Hi"}], template, add_generation_prompt=True, **told)
    counted = (await counter.count(responses, Api.RESPONSES, **changes)).prompt_tokens
    assert counted == hi + counter.on_top(Api.RESPONSES)


async def test_a_callers_own_thinking_switch_wins(counter: Counter) -> None:
    """A template variable that the caller sets itself is not set again by the effort."""
    body = {"messages": [USER], "reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}}
    prepared = await counter.count(body, chat_template=THINKING_TEMPLATE)
    assert prepared.prompt_tokens == counter.expected(
        [USER], THINKING_TEMPLATE, add_generation_prompt=True, reasoning_effort="none", enable_thinking=True
    )


@pytest.mark.parametrize(
    ("messages", "flat"),
    [
        ([DEVELOPER, USER], [{**DEVELOPER, "role": "system"}, USER]),
        ([SYSTEM, USER, DEVELOPER], [{"role": "system", "content": "Be brief.\n\nBe kind."}, USER]),
    ],
)
async def test_developers_are_counted_as_the_system(
    counter: Counter, messages: list[dict[str, Any]], flat: list[dict[str, Any]]
) -> None:
    """A template that knows no developers shows their words as the system's, all of them first."""
    prepared = await counter.count({"messages": messages})
    assert prepared.prompt_tokens == counter.expected(flat, add_generation_prompt=True)
    own = "{% for m in messages %}{% if m.role == 'developer' %}dev {% endif %}{{ m.content }}{% endfor %}"
    assert (await counter.count({"messages": messages}, chat_template=own)).prompt_tokens == counter.expected(
        messages, own, add_generation_prompt=True
    )
