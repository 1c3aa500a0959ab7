"""Scores of answers: read from what vLLM says, and from nothing else."""

import json

import pytest

from penstock.domain.serving.shadow import TokenIds
from penstock.gateway.shadow import scoring

TOLD = {
    "choices": [
        {
            "prompt_logprobs": [
                None,
                {"7": {"logprob": -0.1, "rank": 1, "decoded_token": " a"}},
                {"8": {"logprob": -3.0, "rank": 4}, "9": {"logprob": -0.2, "rank": 1}},
                {"5": {"logprob": -0.3, "rank": 1}},
            ]
        }
    ]
}


def test_the_likeliest_of_each_place_behind_the_prompt_is_read() -> None:
    """Also where the answer's own token is another one."""
    assert scoring.likeliest(json.dumps(TOLD).encode(), 1) == [7, 9, 5]
    assert scoring.likeliest(json.dumps(TOLD).encode(), 2) == [9, 5]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"choices":[]}',
        b'{"choices":[{"prompt_logprobs":null}]}',
        b'{"choices":[{"prompt_logprobs":[null,{"7":{"logprob":-1.0}}]}]}',
        b'{"choices":[{"prompt_logprobs":[null,null]}]}',
        b'{"choices":[{"prompt_logprobs":[null,{"x":{"rank":1}}]}]}',
        b'{"error":{"message":"no"}}',
    ],
)
def test_what_does_not_say_is_no_score(body: bytes) -> None:
    """A body that lacks a place, or is none, says nothing: it is not taken for agreement."""
    found = scoring.likeliest(body, 1)
    assert scoring.differ(found or [], found or []) is None


def test_the_score_is_the_part_of_places_that_differ() -> None:
    """And two of different lengths are none."""
    assert scoring.differ([1, 2, 3, 4], [1, 2, 9, 4]) == 0.25
    assert scoring.differ([1, 2], [1]) is None


def test_short_answers_to_short_prompts_are_scored() -> None:
    """Of a long answer its beginning; a long prompt would hold both engines up, and an empty answer says nothing."""
    most = list(range(100))
    assert scoring.cut(TokenIds(prompt=[1], answer=most)) == TokenIds(prompt=[1], answer=most[: scoring.MOST_ANSWER])
    assert scoring.cut(TokenIds(prompt=[1] * (scoring.MOST_PROMPT + 1), answer=[1])) is None
    assert scoring.cut(TokenIds(prompt=[1], answer=[])) is None
    assert scoring.asked(TokenIds(prompt=[1, 2], answer=[3]))["prompt"] == [1, 2, 3]


def test_each_scores_the_answer_behind_its_own_prompt() -> None:
    """The incumbent's answer is scored; where either has not told its prompt, or it is too long, nothing is."""
    told, own = TokenIds(prompt=[1, 2], answer=[5, 6]), TokenIds(prompt=[9], answer=[7])
    assert scoring.pair(told, own) == (told, TokenIds(prompt=[9], answer=[5, 6]))
    assert scoring.pair(told, None) is scoring.pair(None, own) is None
    assert scoring.pair(told, TokenIds(prompt=[1] * (scoring.MOST_PROMPT + 1), answer=[7])) is None
