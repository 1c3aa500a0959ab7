"""Warm-up shapes and golden prompts."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from penstock.domain.models.model import EngineSettings, GoldenPrompt, Task
from penstock.domain.serving.request import Api
from penstock.worker.agent.warmup import golden, warm
from penstock.worker.agent.warmup.warm import EngineRefused
from tests.unit.worker.engines.test_vllm import MANIFEST


def lengths(task: Task, engine: EngineSettings) -> list[list[int]]:
    """Return the prompt lengths of each round."""
    found = []
    for each in warm.rounds(task, engine):
        prompts = [
            cast("Any", body).get("prompt") or cast("Any", body)["input"] for body in each.bodies + each.optional
        ]
        found.append([len(p) if isinstance(p[0], int) else len(p[0]) for p in prompts])
    return found


def test_a_generating_model_warms_short_long_and_several_at_once() -> None:
    """First one short prompt, then one longer than a prefill step beside a batch of short ones."""
    engine = EngineSettings(max_model_len=2048, max_num_batched_tokens=512)
    first, second = lengths(Task.GENERATE, engine)
    assert first == [8]
    assert max(second) > 512
    assert len(second) == 1 + len(warm.CALLERS_ASK)


@pytest.mark.parametrize("asked", ["logprobs", "top_p", "top_k", "presence_penalty", "seed", "n", "structured_outputs"])
def test_what_callers_ask_for_is_warm_before_they_come(asked: str) -> None:
    """Finding 7: log probabilities, sampling, penalties, seed, n and a grammar are asked for before ready."""
    engine = EngineSettings(max_model_len=2048)
    assert any(asked in body for each in warm.rounds(Task.GENERATE, engine) for body in each.optional)


def test_an_engine_with_one_sequence_is_not_asked_for_two() -> None:
    """Nothing is asked for that the engine would have to do one after the other."""
    engine = EngineSettings(max_num_seqs=1)
    assert all(body.get("n", 1) == 1 for each in warm.rounds(Task.GENERATE, engine) for body in each.optional)


@pytest.mark.parametrize("task", [Task.GENERATE, Task.EMBED])
@pytest.mark.parametrize("context", [16, 64, 256, 8192])
def test_shapes_fit_any_context(task: Task, context: int) -> None:
    """No warm-up request asks for more than the model's context holds."""
    engine = EngineSettings(max_model_len=context, max_num_seqs=2)
    output = warm.OUTPUT_TOKENS if task is Task.GENERATE else 2
    assert all(0 < length <= context - output for round_ in lengths(task, engine) for length in round_ if length > 1)


class Answers:
    """Answers what it is told to, and notes what it was asked."""

    def __init__(self, answer: Mapping[str, object]) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Mapping[str, object]]] = []

    async def __call__(self, path: str, body: Mapping[str, object], timeout_s: float) -> Mapping[str, object]:
        self.asked.append((path, body))
        return self.answer


def chat(text: str | None) -> Answers:
    return Answers({"choices": [{"message": {"content": text}}]})


class Refuses:
    """Refuses whatever has this field, and notes how many it answered."""

    def __init__(self, field: str) -> None:
        self.field, self.answered = field, 0

    async def __call__(self, path: str, body: Mapping[str, object], timeout_s: float) -> Mapping[str, object]:
        if self.field in body:
            raise EngineRefused
        self.answered += 1
        return {}


async def test_a_model_that_knows_no_grammar_is_ready_all_the_same() -> None:
    """What the engine refuses of the optional shapes is left out; all others are sent."""
    ask = Refuses("structured_outputs")
    await warm.work_through(Task.GENERATE, EngineSettings(), ask)
    assert ask.answered == 2 + len(warm.CALLERS_ASK) - 1


async def test_an_engine_that_refuses_plain_work_is_not_ready() -> None:
    """A refusal of what every model must do is the engine's failure."""
    with pytest.raises(EngineRefused):
        await warm.work_through(Task.GENERATE, EngineSettings(), Refuses("prompt"))


QUESTION = replace(
    MANIFEST, chat_template="{{ messages }}", golden=(GoldenPrompt(prompt="Capital of Japan?", expect="Tokyo"),)
)


async def test_a_right_answer_passes() -> None:
    """A greedy chat answer that holds the expected words is right."""
    ask = chat("It is Tokyo.")
    assert await golden.check(QUESTION, ask) == ""
    ((path, body),) = ask.asked
    assert (path, body["temperature"]) == (Api.CHAT, 0)


@pytest.mark.parametrize("text", ["Kyoto", "", None])
async def test_a_wrong_answer_is_named(text: str | None) -> None:
    """A wrong or missing answer is told with what was expected."""
    fault = await golden.check(QUESTION, chat(text))
    assert fault.startswith("golden prompt 1 of 1: expected 'Tokyo' in the answer, got ")


async def test_several_are_asked_at_once_and_the_first_wrong_one_is_named() -> None:
    """An engine answers them in one batch; the fault's number is that of the manifest."""
    both = asyncio.Barrier(2)

    async def ask(path: str, body: Mapping[str, object], timeout_s: float) -> Mapping[str, object]:
        assert (path, timeout_s) == (Api.CHAT, golden.TIMEOUT_S)
        await both.wait()
        text = "Tokyo" if "Japan" in str(body) else "Rome"
        return {"choices": [{"message": {"content": text}}]}

    asked = (*QUESTION.golden, GoldenPrompt(prompt="Capital of Peru?", expect="Lima"))
    async with asyncio.timeout(5):
        fault = await golden.check(replace(QUESTION, golden=asked), ask)
    assert fault.startswith("golden prompt 2 of 2: expected 'Lima'")


async def test_a_model_without_a_template_is_asked_to_complete() -> None:
    """Where there is no chat template the prompt is completed as it stands."""
    ask = Answers({"choices": [{"text": " Tokyo"}]})
    assert await golden.check(replace(QUESTION, chat_template=""), ask) == ""
    assert ask.asked[0][0] == Api.COMPLETIONS


@pytest.mark.parametrize(
    ("near", "far", "is_right"),
    [
        ([1.0, 0.1], [0.0, 1.0], True),
        ([0.0, 1.0], [1.0, 0.1], False),
        ([1.0, 0.0], [1.0, 0.0], False),
        ([float("nan"), 0.0], [0.0, 1.0], False),
        ([0.0, 0.0], [0.0, 1.0], False),
    ],
    ids=["nearer", "farther", "equal", "not a number", "zero"],
)
async def test_embeddings_are_judged_by_their_order(near: list[float], far: list[float], is_right: bool) -> None:
    """Only a near text that is strictly nearer than the far one is right; broken vectors never are."""
    manifest = replace(MANIFEST, task=Task.EMBED, golden=(GoldenPrompt(prompt="a", near="b", far="c"),))
    rows = [{"index": 2, "embedding": far}, {"index": 0, "embedding": [1.0, 0.0]}, {"index": 1, "embedding": near}]
    fault = await golden.check(manifest, Answers({"data": rows}))
    assert (fault == "") is is_right


@pytest.mark.parametrize(("slots", "most"), [(1, 1), (64, 4)])
def test_a_classifier_is_warmed_with_examples_of_its_own(slots: int, most: int) -> None:
    """One alone, then several at once: only its handler knows what its inputs look like."""
    rounds = warm.rounds(Task.CLASSIFY, EngineSettings(max_num_seqs=slots))
    assert [(each.api, each.bodies) for each in rounds] == [
        (Api.CLASSIFY, ({"examples": 1},)),
        (Api.CLASSIFY, ({"examples": most},)),
    ]


@pytest.mark.parametrize(("label", "is_right"), [("cat", True), ("dog", False), (None, False)])
async def test_a_classifier_is_judged_by_its_label(label: str | None, *, is_right: bool) -> None:
    """Only the label that was expected is right."""
    manifest = replace(MANIFEST, task=Task.CLASSIFY, golden=(GoldenPrompt(prompt="data:,", expect="cat"),))
    ask = Answers({"data": [{"index": 0, "label": label}]})
    assert ((await golden.check(manifest, ask)) == "") is is_right
    assert ask.asked == [(Api.CLASSIFY, {"input": ["data:,"]})]
