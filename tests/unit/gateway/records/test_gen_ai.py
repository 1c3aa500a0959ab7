"""OpenTelemetry's names of generative AI, held to the installed conventions; bounded, and without anybody's words."""

import json
from dataclasses import replace

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes, openai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.attributes import error_attributes

from penstock.domain.errors import Overloaded
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.models.model import Task
from penstock.domain.outcome import FinishReason, Outcome, Stage
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tokens import Usage
from penstock.gateway.calls.call import Answer, Call
from penstock.gateway.records import gen_ai
from penstock.gateway.records.gen_ai import GenAi, attributes
from penstock.telemetry import gen_ai_names
from penstock.telemetry.definitions import Label, Metric
from penstock.telemetry.metrics import Metrics
from tests.support.samples import calls

SECRET = "the-caller-said-this"
BODY = {
    "model": "toy",
    "messages": [{"role": "user", "content": SECRET}],
    "stop": [SECRET],
    "user": SECRET,
    "tools": [{"type": "function", "function": {"name": SECRET}}],
    "metadata": {"k": SECRET},
    "response_format": {"type": "json_schema", "json_schema": {"name": SECRET, "schema": {}}},
    "temperature": 0.5,
    "top_p": 1,
    "n": 2,
    "seed": 7,
    "max_tokens": 9,
    "service_tier": "default",
}
OK = Answer(
    outcome=Outcome.OK,
    usage=Usage(prompt_tokens=7, output_tokens=3, cached_tokens=4),
    finish=FinishReason.STOP,
    ttft_s=0.2,
    itl_s=(0.1, 0.1),
)
METRICS = [value for value in vars(gen_ai_names).values() if isinstance(value, Metric)]


class Meter:
    """Takes down what the conventions' own constructors make."""

    def create_histogram(self, name: str, unit: str, description: str) -> str:
        """Return the name as Prometheus has it: OpenTelemetry's rules for the exporter."""
        del description
        return name.replace(".", "_") + {"s": "_seconds", "{token}": ""}[unit]


def known(*modules: object) -> set[str]:
    return {value for module in modules for value in vars(module).values() if isinstance(value, str)}


def test_metrics_are_those_of_the_conventions() -> None:
    """Each name and unit is what the installed package's constructor makes."""
    made = [value for name, value in vars(gen_ai_metrics).items() if name.startswith("create_")]
    assert {metric.name for metric in METRICS} <= {create(Meter()) for create in made}


def test_labels_are_attributes_of_the_conventions() -> None:
    """Dots are underscores, as Prometheus writes them."""
    documented = {name.replace(".", "_") for name in known(gen_ai_attributes, error_attributes)}
    assert {str(label) for metric in METRICS for label in metric.labels} <= documented


def test_a_spans_attributes_are_those_of_the_conventions() -> None:
    """No name is of our own making, and each value is as the request and its answer say."""
    told = attributes(calls.call(body=BODY, stream=True), OK)
    assert told.keys() <= known(gen_ai_attributes, error_attributes, openai_attributes)
    assert told["gen_ai.operation.name"] == gen_ai_attributes.GenAiOperationNameValues.CHAT.value
    assert told["gen_ai.response.model"] == calls.VERSION.id
    assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == (7, 3)
    assert told["gen_ai.usage.cache_read.input_tokens"] == 4
    assert (told["gen_ai.request.temperature"], told["gen_ai.request.max_tokens"]) == (0.5, 9)
    assert told["gen_ai.request.choice.count"] == 2
    assert told["gen_ai.response.finish_reasons"] == ("stop",)
    assert told["gen_ai.output.type"] == gen_ai_attributes.GenAiOutputTypeValues.JSON.value
    assert "error.type" not in told


def test_nobodys_words_are_told() -> None:
    """Prompts, stop strings, tools, users, metadata and schemas stay out of spans and metrics."""
    metrics = Metrics()
    GenAi(metrics).count(calls.call(body=BODY, stream=True), OK, 0.5)
    assert SECRET not in json.dumps(attributes(calls.call(body=BODY), OK))
    assert SECRET not in metrics.exposition().decode()


@pytest.mark.parametrize("value", ["warm", True, None, [0.5], {"a": 1}])
def test_what_is_no_number_is_no_attribute(value: object) -> None:
    """A span takes numbers; a field may hold anything until the API has checked it."""
    told = attributes(calls.call(body={**BODY, "temperature": value}), OK)
    assert "gen_ai.request.temperature" not in told


@pytest.mark.parametrize(
    ("api", "task", "operation"),
    [
        (Api.CHAT, Task.GENERATE, "chat"),
        (Api.MESSAGES, Task.GENERATE, "chat"),
        (Api.RESPONSES, Task.GENERATE, "chat"),
        (Api.COMPLETIONS, Task.GENERATE, "text_completion"),
        (Api.EMBEDDINGS, Task.EMBED, "embeddings"),
        (Api.INFER, Task.GENERATE, "text_completion"),
        (Api.INFER, Task.EMBED, "embeddings"),
        (Api.INFER, Task.CLASSIFY, ""),
        (Api.CLASSIFY, Task.CLASSIFY, ""),
    ],
)
def test_each_api_is_one_operation_or_none(api: Api, task: Task, operation: str) -> None:
    """Classifiers are no generative AI: nothing is told of them under these names."""
    call = calls.call(api=api, version=replace(calls.VERSION, task=task))
    assert gen_ai.operation(call) == operation
    assert bool(attributes(call, OK)) is bool(operation)
    assert operation in {"", *(one.value for one in gen_ai_attributes.GenAiOperationNameValues)}


def sums(metrics: Metrics, call: Call, answer: Answer, seconds: float = 0.5) -> dict[str, float]:
    GenAi(metrics).count(call, answer, seconds)
    return {
        sample.name
        + sample.labels.get(Label.GEN_AI_TOKEN_TYPE, "")
        + sample.labels.get(Label.ERROR_TYPE, ""): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name.startswith("gen_ai_") and sample.name.endswith(("_sum", "_count")) and sample.value
    }


def test_a_streams_times_and_tokens_are_counted_once() -> None:
    """The first token apart, then the mean of those behind it; time that a body took to arrive is the caller's."""
    call = calls.call(stream=True)
    call.timings.put(Stage.UPLOAD, 0.1)
    told = sums(Metrics(), call, OK)
    assert told["gen_ai_client_token_usage_suminput"] == 7
    assert told["gen_ai_client_token_usage_sumoutput"] == 3
    assert told["gen_ai_server_request_duration_seconds_sum"] == pytest.approx(0.4)
    assert told["gen_ai_server_time_to_first_token_seconds_sum"] == pytest.approx(0.2)
    assert told["gen_ai_server_time_per_output_token_seconds_sum"] == pytest.approx(0.1)


def test_an_error_has_its_code_and_no_times_of_tokens() -> None:
    """The conventions ask for times of tokens of answered requests alone."""
    told = sums(Metrics(), calls.call(stream=True), Answer.refused(Overloaded(), Usage()))
    assert told.keys() == {
        "gen_ai_server_request_duration_seconds_sumoverloaded",
        "gen_ai_server_request_duration_seconds_countoverloaded",
    }


def test_several_choices_have_no_time_of_one_token() -> None:
    """Their tokens come side by side."""
    told = sums(Metrics(), calls.call(stream=True, cost=Cost(sequences=2)), OK)
    assert not [name for name in told if "per_output_token" in name]


def test_callers_make_no_series() -> None:
    """A version may be named by a digest of any length: all are one model."""
    metrics, counted = Metrics(), set()
    entry: VersionEntry = calls.VERSION
    told = GenAi(metrics)
    for digits in range(20):
        told.count(calls.call(model=f"toy@{'a' * digits}", version=entry), OK, 0.5)
        counted.add(sum(not line.startswith("#") for line in metrics.exposition().decode().splitlines()))
    assert len(counted) == 1
