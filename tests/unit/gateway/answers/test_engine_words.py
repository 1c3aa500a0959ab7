from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import EngineRefused
from penstock.gateway.answers.engine_words import sentence
from penstock.gateway.dispatch import verdict

SECRET = "my 'secret' \"prompt\" text"


def told(message: str, param: str | None = None) -> tuple[str, str | None]:
    body = msgspec.json.encode({"error": {"message": message, "param": param, "type": "Bad Request", "code": 400}})
    error = verdict.of_answer(400, b"", body).error
    assert isinstance(error, EngineRefused)
    return error.message, error.param


def listed(*errors: tuple[str, str]) -> str:
    """Return the message in which vLLM 0.32 lists these faults, each field's with the value that came."""
    shown: list[dict[str, Any]] = [
        {"type": "value_error", "loc": f"body.{field}", "msg": text, "input": SECRET} for field, text in errors
    ]
    return f"{len(errors)} validation errors:\n" + "".join(f"  {one}\n" for one in shown)


@pytest.mark.parametrize(
    ("message", "words", "param"),
    [
        (
            listed(("top_k", "Input should be a valid integer, unable to parse string as an integer")),
            "top_k should be a valid integer, unable to parse string as an integer",
            "top_k",
        ),
        (
            listed(("stop", "Input should be a valid string"), ("stop", "Input should be a valid list")),
            "stop should be a valid string or a valid list",
            "stop",
        ),
        (
            listed(("messages.0.ChatCompletionUserMessageParam.content.1.text", "Field required")),
            "messages[0].content[1].text is required",
            "messages[0].content[1].text",
        ),
        (
            listed(("input", "Input should be a valid string"), ("input.0.content", "Input should be a valid list")),
            "input[0].content should be a valid list",
            "input[0].content",
        ),
        (
            listed(("top_logprobs", f"Value error, it must be positive (parameter=top_logprobs, value={SECRET})")),
            "top_logprobs: it must be positive",
            "top_logprobs",
        ),
        (
            (
                "1 validation error for ChatCompletionRequest\ntop_k\n  Input should be a valid integer "
                f"[type=int_type, input_value={SECRET!r}, input_type=str]\n"
                "    For further information visit https://errors.pydantic.dev/2.12/v/int_type"
            ),
            "top_k should be a valid integer",
            "top_k",
        ),
        (
            "`prompt_logprobs` are not available when `stream=True`. (parameter=prompt_logprobs)",
            "`prompt_logprobs` are not available when `stream=True`.",
            "prompt_logprobs",
        ),
        (f"seed is too large (parameter=seed, value={SECRET})", "seed is too large", "seed"),
        (f"no such role: '{'word ' * 20}'", "no such role: …", None),
    ],
)
def test_a_refusal_of_the_engine_is_one_sentence_about_a_field(message: str, words: str, param: str | None) -> None:
    """What the validation library printed is told as field and fault, without types, addresses or the value."""
    assert told(message) == (words, param)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("two words", "logit_bias should be a valid number"),
        (SECRET, "The engine did not accept the request."),
    ],
)
def test_a_key_of_the_callers_is_not_repeated(key: str, words: str) -> None:
    """A field's name ends where the caller's own keys begin; what can't be read is told without detail."""
    path = f"logit_bias.{key}"
    assert told(listed((path, "Input should be a valid number")), f"body.{path}") == (words, "logit_bias")


@given(st.text(max_size=300), st.text(max_size=40))
def test_any_words_end_in_a_bounded_line(message: str, param: str) -> None:
    """Whatever an engine says, what is told is one printable line."""
    for text in (message, listed((param, message)), f"1 validation error:\n{message}"):
        said, field = sentence(text, param)
        assert (said + field).isprintable()
        assert len(said) <= 1_000
