"""Rounding explains close calls between two greedy answers, and nothing else."""

import json

import pytest

from tests.support.engines.likeness import Token, agreeing, difference, streamed


def token(text: str, logprob: float = -0.1, **alternatives: float) -> Token:
    return Token(text=text, logprob=logprob, alternatives={text: logprob, **alternatives})


SURE = token("The", sea=-4.0)
CLOSE = (token("sun", -0.9, moon=-1.0), token("moon", -0.95, sun=-0.98))
REST = (token("sets"), token("rises"))


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ([SURE, token("a")], [SURE, token("a", -0.2)], ""),
        ([SURE, CLOSE[0], REST[0]], [SURE, CLOSE[1], REST[1]], ""),
        ([SURE], [SURE, REST[0]], "1 tokens and 2"),
        ([SURE], [token("sea", -0.1, The=-4.0)], "lead of"),
        ([SURE], [token("wolf", -0.1)], "lead of"),
        ([SURE], [token("The", -0.8)], "log probability"),
    ],
)
def test_only_close_calls_are_alike(one: list[Token], other: list[Token], found: str) -> None:
    """Another length, another token with a clear lead, or another log probability is a difference."""
    assert (found in difference(one, other)) if found else difference(one, other) == ""


def test_tokens_are_read_from_a_stream() -> None:
    """Each event may hold several tokens, or none; lines that are no events are skipped."""
    top = [{"token": "a", "logprob": -0.1}, {"token": "b", "logprob": -2.0}]
    content = [{"token": "a", "logprob": -0.1, "top_logprobs": top}] * 2
    events = [
        {"choices": [{"delta": {"role": "assistant"}, "logprobs": None}]},
        {"choices": [{"delta": {"content": "aa"}, "logprobs": {"content": content}}]},
        {"choices": []},
    ]
    lines = ["", *(f"data: {json.dumps(event)}" for event in events), "data: [DONE]"]
    expected = Token(text="a", logprob=-0.1, alternatives={"a": -0.1, "b": -2.0})
    assert list(streamed(iter(lines))) == [expected, expected]


def test_draws_agree_by_their_share() -> None:
    """Draws are compared one by one."""
    assert agreeing(["a", "b", "c", "d"], ["a", "b", "d", "c"]) == 0.5
