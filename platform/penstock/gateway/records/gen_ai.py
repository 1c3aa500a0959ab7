"""OpenTelemetry's ``gen_ai.*`` of a request: span attributes and metrics. They never contain text of a prompt or
answer.

Only requests that generate or embed have them: the conventions name no operation for classifiers and tensors.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeGuard

from penstock.domain.models.model import Task
from penstock.domain.outcome import Outcome, Stage
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.service_tiers import FIELD
from penstock.gateway.calls import wishes
from penstock.gateway.calls.call import Answer, Call
from penstock.telemetry import names
from penstock.telemetry.definitions import Label
from penstock.telemetry.metrics import Metrics, Observed

PROVIDER = "penstock"
_OPERATIONS = {
    Api.CHAT: "chat",
    Api.RESPONSES: "chat",
    Api.MESSAGES: "chat",
    Api.COMPLETIONS: "text_completion",
    Api.EMBEDDINGS: "embeddings",
}
_OF_TASK = {Task.GENERATE: "text_completion", Task.EMBED: "embeddings"}
"""Operation by task, for the Open Inference Protocol."""
_NUMBERS = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "seed": "gen_ai.request.seed",
    "n": "gen_ai.request.choice.count",
}
"""Fields and their attributes. Stop strings are omitted, because they are caller's text."""
_BOUNDS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
MOST_CHILDREN = 1024
"""Operations times models with cached children; further ones are created each time."""
Value = str | int | float | bool | Sequence[str]


def operation(call: Call) -> str:
    """Return the operation's name; empty if the conventions name none for this API."""
    known = _OPERATIONS.get(call.request.api, "")
    if known or call.version is None or call.request.api is not Api.INFER:
        return known
    return _OF_TASK.get(call.version.task, "")


def error_type(answer: Answer) -> str:
    """The code, or the outcome's name; empty for a complete answer."""
    if answer.outcome is Outcome.OK:
        return ""
    return answer.refusal.code if answer.refusal is not None else answer.outcome.value


def attributes(call: Call, answer: Answer) -> dict[str, Value]:
    """Return no attributes if the request is no operation of generative AI."""
    name, request, usage = operation(call), call.request, answer.usage
    if not name or call.version is None:
        return {}
    told: dict[str, Value] = {
        "gen_ai.operation.name": name,
        "gen_ai.provider.name": PROVIDER,
        "gen_ai.request.model": request.model,
        "gen_ai.response.model": call.version.id,
        "gen_ai.request.stream": request.stream,
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        **_asked(request.body),
    }
    if request.api.generates:
        told["gen_ai.output.type"] = "json" if wishes.is_structured(request.body) else "text"
    if answer.finish is not None:
        told["gen_ai.response.finish_reasons"] = (answer.finish.value,)
    if error := error_type(answer):
        told["error.type"] = error
    if request.api in (Api.CHAT, Api.COMPLETIONS, Api.RESPONSES):
        told["gen_ai.openai.response.service_tier"] = call.principal.tier.name.value
        if isinstance(asked := request.body.get(FIELD), str):
            told["gen_ai.openai.request.service_tier"] = asked
    return told


def _asked(body: Mapping[str, object]) -> dict[str, Value]:
    told: dict[str, Value] = {}
    for field, attribute in _NUMBERS.items():
        if _is_number(value := body.get(field)):
            told[attribute] = value
    bound = next((value for field in _BOUNDS if _is_number(value := body.get(field))), None)
    return told if bound is None else {**told, "gen_ai.request.max_tokens": bound}


class _Children:
    def __init__(self, metrics: Metrics, *what: str) -> None:
        labels = dict(zip(map(str, names.GEN_AI_PER_TOKEN_SECONDS.labels), what, strict=True))
        seconds, tokens = metrics.histogram(names.GEN_AI_REQUEST_SECONDS), metrics.histogram(names.GEN_AI_TOKEN_USAGE)
        self.seconds: Callable[[str], Observed] = lru_cache(MOST_CHILDREN)(
            lambda error: Observed(seconds.labels(**labels, **{Label.ERROR_TYPE: error}))
        )
        self.input, self.output = (
            Observed(tokens.labels(**labels, **{Label.GEN_AI_TOKEN_TYPE: kind})) for kind in ("input", "output")
        )
        self.first = Observed(metrics.histogram(names.GEN_AI_FIRST_TOKEN_SECONDS).labels(**labels))
        self.each = Observed(metrics.histogram(names.GEN_AI_PER_TOKEN_SECONDS).labels(**labels))


class GenAi:
    def __init__(self, metrics: Metrics) -> None:
        self._children: Callable[[str, str, str], _Children] = lru_cache(MOST_CHILDREN)(
            lambda name, asked, answering: _Children(metrics, name, PROVIDER, _model(asked), _model(answering))
        )

    def count(self, call: Call, answer: Answer, seconds: float) -> None:
        version, name, usage = call.version, operation(call), answer.usage
        if version is None or not name:
            return
        children = self._children(name, call.request.model, version.id)
        children.seconds(error_type(answer)).observe(seconds - call.timings.seconds.get(Stage.UPLOAD, 0.0))
        if usage.prompt_tokens:
            children.input.observe(usage.prompt_tokens)
        if usage.output_tokens:
            children.output.observe(usage.output_tokens)
        if answer.outcome is Outcome.OK and call.request.stream and answer.ttft_s is not None:
            children.first.observe(answer.ttft_s)
            if usage.output_tokens > 1 and call.request.cost.sequences == 1:
                children.each.observe(sum(answer.itl_s) / (usage.output_tokens - 1))


def _model(version: str) -> str:
    return version.partition("@")[0]


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
