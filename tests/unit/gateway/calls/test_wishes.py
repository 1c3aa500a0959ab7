"""What a body asks for: which fields leave an answer's end to the model alone."""

import pytest

from penstock.domain.serving.request import Sealed
from penstock.gateway.calls.wishes import BOUNDS, FORMS, leaves_end

ASKED: dict[str, object] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
BEGUN = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "I"}]
STEERS: dict[str, object] = {
    "allowed_token_ids": [2],
    "bad_words": ["a"],
    "best_of": 2,
    "chat_template": "{{ eos }}",
    "chat_template_kwargs": {"enable_thinking": False},
    "continue_final_message": True,
    "add_generation_prompt": False,
    "echo": True,
    "frequency_penalty": -2.0,
    "functions": [{}],
    "guided_regex": "",
    "ignore_eos": True,
    "include_stop_str_in_output": True,
    "length_penalty": 2.0,
    "logit_bias": {"2": 100},
    "max_completion_tokens": 1,
    "max_output_tokens": 1,
    "max_tokens": 1,
    "min_tokens": 500,
    "n": 2,
    "nobody_knows": 1,
    "presence_penalty": 2.0,
    "reasoning_effort": "high",
    "repetition_penalty": 2.0,
    "response_format": {"type": "json_object"},
    "skip_special_tokens": False,
    "stop": ["a"],
    "stop_sequences": ["a"],
    "stop_token_ids": [2],
    "structured_outputs": {"choice": [""]},
    "suffix": "a",
    "temperature": 1.9,
    "text": {"format": {"type": "json_object"}},
    "thinking": {"type": "enabled"},
    "tool_choice": "required",
    "tools": [{"type": "function"}],
    "truncate_prompt_tokens": 1,
    "use_beam_search": True,
    "vllm_xargs": {"a": 1},
}


@pytest.mark.parametrize("name", STEERS)
def test_a_field_that_steers_takes_the_end_from_the_model(name: str) -> None:
    """Each of them, and any that nobody knows."""
    assert not leaves_end({**ASKED, name: STEERS[name]})


@pytest.mark.parametrize("name", ["messages", "input"])
def test_an_answer_that_its_caller_began_is_steered(name: str) -> None:
    """Also where nobody can see whether it did."""
    assert not leaves_end({"model": "m", name: BEGUN})
    assert not leaves_end({"model": "m", name: Sealed(b"[]", items=2, is_text=True)})


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"stream": True, "stream_options": {"include_usage": True}, "user": "u", "seed": 7},
        {"temperature": 0.7, "top_p": 0.9, "top_k": 40, "min_p": 0.1},
        {"n": 1, "stop": None, "tools": [], "logit_bias": {}, "frequency_penalty": 0, "ignore_eos": False},
        {"system": "Be brief.", "metadata": {"a": "b"}},
    ],
)
def test_who_says_nothing_of_it_leaves_the_end_to_the_model(body: dict[str, object]) -> None:
    """Sampling by the model's own odds, names, and fields at what they are without a word."""
    assert leaves_end({**ASKED, **body})


@pytest.mark.parametrize(
    ("prompt", "leaves"),
    [
        ("Hi", True),
        (["Hi", "there"], False),
        ([1, 2], False),
        (Sealed(b'"a"', items=1, is_text=True), True),
        (Sealed(b"[]", items=3, is_text=True), False),
    ],
)
def test_several_answers_have_several_ends(prompt: object, *, leaves: bool) -> None:
    """One prompt has one answer; of token ids nobody knows."""
    assert leaves_end({"model": "m", "prompt": prompt}) is leaves


def test_a_question_may_be_about_other_fields_than_bounds_and_forms() -> None:
    """What its bound did not end, the model ended; what a form breaks is no JSON."""
    body: dict[str, object] = {**ASKED, "max_tokens": 5, "response_format": {"type": "json_object"}}
    assert leaves_end(body, BOUNDS | FORMS)
    assert not leaves_end(body, BOUNDS)
    assert not leaves_end({**body, "stop": ["a"]}, BOUNDS | FORMS)
