"""What a request may cost, as the gateway tells before it runs, against what real vLLM made of it (C11)."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from penstock.apps import models, stores
from penstock.control.publish import build
from penstock.domain.clock import SystemClock
from penstock.domain.fleet.table import EMPTY, VersionEntry
from penstock.domain.fleet.versions import Catalogue, Deployment
from penstock.domain.ids import RequestId
from penstock.domain.models.model import ModelVersion
from penstock.domain.serving.report import Used
from penstock.domain.serving.request import Api, InferenceRequest
from penstock.domain.tenancy.cost import Cost
from penstock.formats.report import decode
from penstock.gateway.openai.parse import parse
from penstock.gateway.preprocess.prepare import PromptPreprocessor
from penstock.gateway.preprocess.tokenizer_cache import TokenizerCache
from penstock.settings import Settings
from tests.support.samples.calls import call, principal
from tests.support.workers.process import WorkerProcess

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SAY = {"role": "user", "content": "Count to twenty, Grüße, 東京 🗼."}
DEVELOPER = {"role": "developer", "content": "Be brief."}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "look_up", "description": "Looks a city up. " * 5, "parameters": PARAMETERS}
CALL = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"city": "Rome"}'}}
CALLED = [{"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c1", "content": "sunny"}]
SCHEMA = {"type": "json_schema", "json_schema": {"name": "c", "schema": PARAMETERS}}
USE = {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"city": "Rome"}}
USED = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "sunny"}]}
ITEMS = [
    {"role": "user", "content": "Weather?"},
    {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": '{"city": "Rome"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
]
THOUGHT = {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
CHAT: dict[str, dict[str, Any]] = {
    "plain": {},
    "choices": {"n": 5, "temperature": 1.0},
    "beams": {"n": 3, "use_beam_search": True, "temperature": 0.0},
    "effort": {"reasoning_effort": "low"},
    "no effort": {"reasoning_effort": "none"},
    "developer": {"messages": [DEVELOPER, SAY]},
    "late developer": {"messages": [{"role": "system", "content": "Be kind."}, SAY, DEVELOPER]},
    "template arguments": {"chat_template_kwargs": {"enable_thinking": True, "x": "y" * 50}},
    "tools": {"tools": [{"type": "function", "function": FUNCTION}]},
    "tool calls": {"messages": [SAY, *CALLED, SAY]},
    "schema": {"response_format": SCHEMA},
    "log probabilities": {"logprobs": True, "top_logprobs": 2},
    "scored prompt": {"prompt_logprobs": 2},
    "echo": {"echo": True},
    "continued": {
        "messages": [SAY, {"role": "assistant", "content": "One, two"}],
        "continue_final_message": True,
        "add_generation_prompt": False,
    },
    "parts": {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    },
}
EXACT: dict[str, tuple[Api, dict[str, Any]]] = {
    **{f"chat: {name}": (Api.CHAT, {"messages": [SAY], "max_tokens": 6, **body}) for name, body in CHAT.items()},
    "completion": (Api.COMPLETIONS, {"prompt": "Once upon a time"}),
    "completions": (Api.COMPLETIONS, {"prompt": ["Once", "upon a", "time"], "max_tokens": 5, "n": 2}),
    "completion: ids": (Api.COMPLETIONS, {"prompt": [[1, 2, 3], [4, 5]], "max_tokens": 4}),
    "completion: echo": (Api.COMPLETIONS, {"prompt": "Once upon", "max_tokens": 4, "echo": True, "logprobs": 1}),
    "completion: beams": (Api.COMPLETIONS, {"prompt": "Once", "max_tokens": 5, "n": 3, "use_beam_search": True}),
    "completion: cut": (Api.COMPLETIONS, {"prompt": "a b c d e f", "max_tokens": 4, "truncate_prompt_tokens": 3}),
    "completion: no bound": (Api.COMPLETIONS, {"prompt": "1, 2, 3, 4,", "max_tokens": None, "stop": [" 19"]}),
    "response": (Api.RESPONSES, {"input": "Count.", "max_output_tokens": 6}),
    "response: effort": (Api.RESPONSES, {"input": "Count.", "max_output_tokens": 6, "reasoning": {"effort": "low"}}),
    "response: text": (
        Api.RESPONSES,
        {"input": "Count.", "max_output_tokens": 6, "text": {"format": {"type": "text"}}},
    ),
    "message": (Api.MESSAGES, {"messages": [SAY], "system": "Be brief.", "max_tokens": 6}),
    "message: thinking": (Api.MESSAGES, {"messages": [SAY], "max_tokens": 6, "thinking": {"type": "adaptive"}}),
    "message: effort": (Api.MESSAGES, {"messages": [SAY], "max_tokens": 6, "output_config": {"effort": "low"}}),
    "response: tools": (
        Api.RESPONSES,
        {"input": "Weather?", "max_output_tokens": 6, "tools": [{"type": "function", **FUNCTION}]},
    ),
    "response: called": (Api.RESPONSES, {"input": ITEMS, "max_output_tokens": 6}),
    "message: tools": (
        Api.MESSAGES,
        {
            "messages": [SAY],
            "max_tokens": 6,
            "tools": [{"name": "look_up", "description": "Looks up.", "input_schema": PARAMETERS}],
        },
    ),
    "message: called": (
        Api.MESSAGES,
        {
            "messages": [SAY, {"role": "assistant", "content": [USE]}, {"role": "user", "content": [USED]}],
            "max_tokens": 6,
        },
    ),
}
BOUNDED: dict[str, tuple[Api, dict[str, Any]]] = {
    "response: thoughts": (Api.RESPONSES, {"input": [*ITEMS, THOUGHT], "max_output_tokens": 6}),
}


@pytest.fixture(scope="module")
def entries(worker_settings: Settings) -> dict[str, VersionEntry]:
    """Return what the routing table says of each version, by alias."""
    packed = asyncio.run(models.ensure_demo(worker_settings, lambda _: None))
    versions = tuple(
        ModelVersion(id=one.id, digest=one.digest, manifest=one.manifest, created_at=0.0) for one in packed.values()
    )
    wanted = tuple(Deployment(version=one.id, replicas=1) for one in versions)
    table = build.build(Catalogue(versions=versions, deployments=wanted), (), EMPTY, 1.0, silence_s=5.0)
    by_id = {entry.id: entry for entry in table.versions}
    return {str(alias): by_id[version.id] for alias, version in packed.items()}


def cost_of(settings: Settings, entry: VersionEntry, api: Api, body: dict[str, Any]) -> Cost:
    """Return what the gateway tells of the request before it runs."""
    parsed = parse(api, json.dumps({"model": "m", **body}).encode())
    request = InferenceRequest(
        id=RequestId("r"),
        api=api,
        model="m",
        body=parsed.body,
        stream=False,
        include_usage=False,
        cost=parsed.cost,
        arrived_at=0.0,
    )

    async def prepared() -> Cost:
        store = stores.open_store(settings)
        preprocessor = PromptPreprocessor(TokenizerCache(store), SystemClock())
        asked = call(version=entry)
        asked = replace(asked, request=request)
        asked = replace(asked, prepared=await preprocessor.prepare(request, entry, principal()))
        preprocessor.close()
        return asked.cost

    return asyncio.run(prepared())


def ask(worker: WorkerProcess, api: Api, body: dict[str, Any]) -> Used:
    answer = worker.post(str(api), {"model": worker.version, **body}, timeout=200)
    assert answer.status_code == 200, answer.text
    told = decode(answer.headers["x-penstock-report"].encode()).used
    assert told is not None
    return told


@pytest.mark.parametrize("name", EXACT)
def test_a_counted_prompt_is_the_engines_and_output_stays_within(
    unhurried: WorkerProcess, worker_settings: Settings, entries: dict[str, VersionEntry], name: str
) -> None:
    """Prompts and sequences are told exactly, outputs never too low: each API, choices, beams, efforts, developers."""
    api, body = EXACT[name]
    cost, told = cost_of(worker_settings, entries["smollm2"], api, body), ask(unhurried, api, body)
    assert cost.is_counted
    assert (cost.prompts, cost.prompt_tokens) == (told.prompts, told.prompt_tokens)
    assert cost.output_tokens >= told.output_tokens > 0
    assert cost.sequences >= told.sequences or body.get("use_beam_search")


@pytest.mark.parametrize("name", BOUNDED)
def test_what_is_not_counted_is_never_below_the_truth(
    unhurried: WorkerProcess, worker_settings: Settings, entries: dict[str, VersionEntry], name: str
) -> None:
    """Finding 3: what only the engine renders has an upper bound that holds, and is not the whole context."""
    api, body = BOUNDED[name]
    cost, told = cost_of(worker_settings, entries["smollm2"], api, body), ask(unhurried, api, body)
    assert not cost.is_counted
    assert told.prompt_tokens <= cost.prompt_tokens < entries["smollm2"].max_model_len
    assert told.output_tokens <= cost.output_tokens


def test_vectors_cost_their_prompts(
    encoder: WorkerProcess, worker_settings: Settings, entries: dict[str, VersionEntry]
) -> None:
    """Inputs are told exactly, and no output is reserved for them."""
    entry, lists = entries["minilm"], ("one", ["one", "two words"], [[101, 2028, 102], [101, 102]])
    for given in lists:
        body = {"input": given}
        cost, told = cost_of(worker_settings, entry, Api.EMBEDDINGS, body), ask(encoder, Api.EMBEDDINGS, body)
        assert (cost.prompts, cost.prompt_tokens, cost.output_tokens) == (told.prompts, told.prompt_tokens, 0)
