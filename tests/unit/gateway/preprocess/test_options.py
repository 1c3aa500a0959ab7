"""Fields that change a prompt's tokens count where the engine reads them, and nowhere else."""

from typing import Any

import pytest

from penstock.domain.errors import InvalidField
from penstock.domain.models.model import Task
from penstock.domain.serving.request import Api
from tests.support.models import tokenizers
from tests.support.models.prompt_counter import Counter, counter_of

TEXT = "word " * 1_200
SAID = [{"role": "user", "content": TEXT}]
ANSWERED = [*SAID, {"role": "assistant", "content": "Once upon"}]
BODIES: dict[Api, dict[str, Any]] = {
    Api.MESSAGES: {"messages": ANSWERED, "max_tokens": 1},
    Api.RESPONSES: {"input": ANSWERED, "max_output_tokens": 1},
}
LONG = 1 << 16
DOCUMENTS = "{% for message in messages %}{{ message.content }}{% endfor %}{% if not documents %}none at all{% endif %}"


@pytest.mark.parametrize("api", [Api.MESSAGES, Api.RESPONSES])
@pytest.mark.parametrize(
    "told",
    [
        {"truncate_prompt_tokens": 0},
        {"truncate_prompt_tokens": 1},
        {"truncate_prompt_tokens": -1},
        {"truncate_prompt_tokens": 1, "truncation_side": "left"},
        {"add_generation_prompt": False},
        {"continue_final_message": True, "add_generation_prompt": False},
        {"add_special_tokens": False},
        {"padding": "max_length"},
    ],
    ids=str,
)
async def test_what_an_api_does_not_know_changes_no_count(counter: Counter, api: Api, told: dict[str, Any]) -> None:
    """On messages and responses the engine ignores chat's fields; ``truncate_prompt_tokens`` made prompts free."""
    plain = await counter.count(BODIES[api], api, max_model_len=LONG)
    assert await counter.count({**BODIES[api], **told}, api, max_model_len=LONG) == plain
    assert plain.prompt_tokens > 1_000


@pytest.mark.parametrize("api", [Api.MESSAGES, Api.RESPONSES])
async def test_documents_are_for_chat_alone(counter: Counter, api: Api) -> None:
    """The engine gives no documents to the template on other APIs, whatever the body holds."""
    told: dict[str, Any] = {"max_model_len": LONG, "chat_template": DOCUMENTS}
    plain = await counter.count(BODIES[api], api, **told)
    assert await counter.count({**BODIES[api], "documents": [{"text": "x"}]}, api, **told) == plain


@pytest.mark.parametrize("asked", ["auto", "disabled", None])
async def test_automatic_truncation_never_counts_less(counter: Counter, asked: str | None) -> None:
    """A response that lets the engine cut to the context counts whole while it fits."""
    body = BODIES[Api.RESPONSES]
    plain = await counter.count(body, Api.RESPONSES, max_model_len=LONG)
    assert await counter.count({**body, "truncation": asked}, Api.RESPONSES, max_model_len=LONG) == plain


@pytest.mark.parametrize(
    ("api", "body"),
    [
        (Api.CHAT, {"messages": SAID}),
        (Api.COMPLETIONS, {"prompt": TEXT}),
        (Api.COMPLETIONS, {"prompt": [[1] * 1_200, [2] * 1_200]}),
        (Api.EMBEDDINGS, {"input": TEXT}),
        (Api.EMBEDDINGS, {"messages": SAID}),
    ],
    ids=["chat", "completion", "completions", "embedding", "embedded chat"],
)
async def test_truncation_counts_as_the_engine_cuts(counter: Counter, api: Api, body: dict[str, Any]) -> None:
    """What is kept counts, other negative numbers keep all, and what leaves an empty prompt is refused unread."""
    version: dict[str, Any] = {"max_model_len": LONG, "task": Task.EMBED if api is Api.EMBEDDINGS else Task.GENERATE}
    whole = await counter.count(body, api, **version)
    prompts = len(body["prompt"]) if isinstance(body.get("prompt"), list) else 1
    cut = await counter.count({**body, "truncate_prompt_tokens": 7}, api, **version)
    assert cut.prompt_tokens == 7 * prompts
    odd = await counter.count({**body, "truncate_prompt_tokens": -2}, api, **version)
    assert odd.prompt_tokens == whole.prompt_tokens > 1_000
    with pytest.raises(InvalidField, match="leave something"):
        await counter.count({**body, "truncate_prompt_tokens": 0}, api, **version)


async def test_padded_inputs_count_as_what_they_are_filled_up_to(counter: Counter) -> None:
    """The engine fills each input up to the context where that is asked, so each counts so much."""
    body = {"input": ["one", "two"], "truncate_prompt_tokens": 1}
    version: dict[str, Any] = {"max_model_len": 512, "task": Task.EMBED}
    assert (await counter.count(body, Api.EMBEDDINGS, **version)).prompt_tokens == 2
    padded = await counter.count({**body, "padding": "max_length"}, Api.EMBEDDINGS, **version)
    assert padded.prompt_tokens == 1_024


async def test_embedded_conversations_open_no_turn(counter: Counter) -> None:
    """An embedded conversation ends as it stands, unless the caller asks for an answer's beginning."""
    version: dict[str, Any] = {"max_model_len": LONG, "task": Task.EMBED}
    assert (await counter.count({"messages": SAID}, Api.EMBEDDINGS, **version)).prompt_tokens == counter.expected(SAID)
    opened = await counter.count({"messages": SAID, "add_generation_prompt": True}, Api.EMBEDDINGS, **version)
    assert opened.prompt_tokens == counter.expected(SAID, add_generation_prompt=True)


async def test_special_tokens_come_on_top_of_responses() -> None:
    """The engine tokenises a rendered response with special tokens, a rendered message without, whatever is asked."""
    blob = tokenizers.demo("[CLS]")
    if blob is None:
        pytest.skip("MiniLM is not prepared here (make models)")
    counter = counter_of(blob)
    asking: dict[Api, dict[str, Any]] = {
        Api.MESSAGES: {"messages": SAID, "max_tokens": 1},
        Api.RESPONSES: {"input": SAID},
    }
    for asked in ({}, {"add_special_tokens": False}, {"add_special_tokens": True}):
        counted = {api: await counter.count({**body, **asked}, api, max_model_len=LONG) for api, body in asking.items()}
        assert counted[Api.RESPONSES].prompt_tokens == counted[Api.MESSAGES].prompt_tokens + 2
    message, chat = asking[Api.MESSAGES], {"messages": SAID, "add_special_tokens": True}
    plain = (await counter.count(message, Api.MESSAGES, max_model_len=LONG)).prompt_tokens
    assert (await counter.count(chat, max_model_len=LONG)).prompt_tokens == plain + 2
    counter.preprocessor.close()
