"""The requests that SDKs and engine document, as JSON Schemas: read from the packages that are installed."""

import warnings
from collections.abc import Mapping
from importlib import import_module

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from penstock.domain.serving.request import Api
from penstock.domain.tenancy import service_tiers

Schema = dict[str, object]

_OPENAI, _VLLM = "openai.types", "vllm.entrypoints"
SOURCES: Mapping[Api, tuple[tuple[str, str], ...]] = {
    Api.CHAT: (
        (f"{_OPENAI}.chat.completion_create_params", "CompletionCreateParamsNonStreaming"),
        (f"{_OPENAI}.chat.completion_create_params", "CompletionCreateParamsStreaming"),
        (f"{_VLLM}.openai.chat_completion.protocol", "ChatCompletionRequest"),
    ),
    Api.COMPLETIONS: (
        (f"{_OPENAI}.completion_create_params", "CompletionCreateParamsNonStreaming"),
        (f"{_OPENAI}.completion_create_params", "CompletionCreateParamsStreaming"),
        (f"{_VLLM}.openai.completion.protocol", "CompletionRequest"),
    ),
    Api.EMBEDDINGS: (
        (f"{_OPENAI}.embedding_create_params", "EmbeddingCreateParams"),
        (f"{_VLLM}.pooling.embed.protocol", "EmbeddingCompletionRequest"),
        (f"{_VLLM}.pooling.embed.protocol", "EmbeddingChatRequest"),
    ),
    Api.CLASSIFY: (
        (f"{_VLLM}.pooling.classify.protocol", "ClassificationCompletionRequest"),
        (f"{_VLLM}.pooling.classify.protocol", "ClassificationChatRequest"),
    ),
    Api.RESPONSES: (
        (f"{_OPENAI}.responses.response_create_params", "ResponseCreateParamsNonStreaming"),
        (f"{_OPENAI}.responses.response_create_params", "ResponseCreateParamsStreaming"),
        (f"{_VLLM}.openai.responses.protocol", "ResponsesRequest"),
    ),
    Api.MESSAGES: (
        ("anthropic.types.message_create_params", "MessageCreateParamsNonStreaming"),
        ("anthropic.types.message_create_params", "MessageCreateParamsStreaming"),
        ("anthropic.types.beta.message_create_params", "MessageCreateParamsNonStreaming"),
        ("anthropic.types.message_count_tokens_params", "MessageCountTokensParams"),
        (f"{_VLLM}.anthropic.protocol", "AnthropicMessagesRequest"),
        (f"{_VLLM}.anthropic.protocol", "AnthropicCountTokensRequest"),
    ),
}
"""The declarations of each API's requests; no SDK classifies."""
COUNTS: Mapping[Api, tuple[tuple[str, str], ...]] = {
    Api.RESPONSES: ((f"{_OPENAI}.responses.input_token_count_params", "InputTokenCountParams"),),
    Api.MESSAGES: (
        ("anthropic.types.message_count_tokens_params", "MessageCountTokensParams"),
        (f"{_VLLM}.anthropic.protocol", "AnthropicCountTokensRequest"),
    ),
}
"""The declarations of token counts."""


_TEXT: Schema = {"type": ["string", "null"]}
_CALL: Schema = {"type": "object", "properties": {"index": {"type": ["integer", "null"]}}}
_SPOKEN: Schema = {
    "type": "object",
    "properties": {
        "role": {"type": "string"},
        "reasoning_content": _TEXT,
        "tool_calls": {"type": "array", "items": _CALL},
    },
    "required": ["role"],
}
_LIST: Schema = {"type": "array", "items": {}}
_OUTPUT: Schema = {"type": {"const": "output_text"}, "text": _TEXT, "annotations": _LIST, "logprobs": _LIST}
_SAID: Schema = {
    "type": "object",
    "properties": {
        "role": {"type": "string"},
        "content": {
            "type": "array",
            "items": {"type": "object", "properties": _OUTPUT, "required": ["type"]},
        },
    },
    "required": ["role"],
}
_CHAT: Schema = {"messages": {"type": "array", "items": _SPOKEN}}
_STREAM: Schema = {"stream": {"type": "boolean"}, "stream_options": {"type": "object"}}
_GUIDED: Schema = {f"guided_{kind}": {} for kind in ("json", "regex", "choice", "grammar")}
_TIER: Schema = {service_tiers.FIELD: {"enum": [*service_tiers.ASKED]}}
BESIDE: Mapping[Api, Schema] = {
    Api.CHAT: _CHAT | _GUIDED | _TIER,
    Api.COMPLETIONS: _GUIDED | _TIER,
    Api.EMBEDDINGS: _CHAT | _STREAM | _TIER,
    Api.CLASSIFY: _CHAT | _STREAM | _TIER,
    Api.RESPONSES: {"input": {"type": "array", "items": _SAID}, "background_options": {"type": "object"}} | _TIER,
}
"""Fields of ours, and what clients send beyond all sources: answers sent back as they came, older names."""


class _Quiet(GenerateJsonSchema):
    """A default that JSON does not know stays out."""

    def emit_warning(self, kind: str, detail: str) -> None:
        del kind, detail


def load(module: str, name: str) -> type:
    """Return a request class."""
    found: type = getattr(import_module(module), name)
    return found


def counted(api: Api) -> list[str]:
    """Return the fields that an API's token count documents."""
    found: set[str] = set()
    for module, name in COUNTS.get(api, ()):
        found |= {*getattr(one := load(module, name), "model_fields", ()), *getattr(one, "__annotations__", ())}
    return sorted(found)


def schemas(api: Api) -> list[JsonSchemaValue]:
    """Return the schemas of each request class of an API."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            TypeAdapter(load(module, name)).json_schema(ref_template="{model}", schema_generator=_Quiet)
            for module, name in SOURCES[api]
        ] + [{"type": "object", "properties": BESIDE.get(api, {})}]
