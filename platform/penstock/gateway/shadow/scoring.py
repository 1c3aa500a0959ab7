"""The share of tokens in which two versions of one model would differ: a quality measure without a judging model. Pure.

Each version gets the request as its own engine renders it, followed by the incumbent's answer, and returns the
likeliest token at each position of the answer.
"""

from collections.abc import Sequence

from penstock.domain.serving.shadow import TokenIds
from penstock.gateway.answers import content

MOST_PROMPT = 2_048
"""Tokens of a prompt with a scored answer: each is returned with its log probability."""
MOST_ANSWER = 64
"""The first tokens of an answer, which are scored."""


def cut(ids: TokenIds) -> TokenIds | None:
    if not ids.answer or len(ids.prompt) > MOST_PROMPT:
        return None
    return TokenIds(prompt=ids.prompt, answer=ids.answer[:MOST_ANSWER])


def pair(told: TokenIds | None, own: TokenIds | None) -> tuple[TokenIds, TokenIds] | None:
    """Return two bodies with the same answer, each after its own prompt: ``told`` is the incumbent's, ``own`` the
    candidate's.
    """
    if told is None or own is None:
        return None
    theirs, mine = cut(told), cut(TokenIds(prompt=own.prompt, answer=told.answer))
    return None if theirs is None or mine is None else (theirs, mine)


def asked(ids: TokenIds) -> dict[str, object]:
    return {"prompt": [*ids.prompt, *ids.answer], "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 1}


def likeliest(body: bytes, after: int) -> list[int] | None:
    """Return the likeliest tokens after the prompt; None if the body lacks them."""
    try:
        found = content.only(body).likeliest()[after:]
    except ValueError:
        return None
    return None if None in found else [token for token in found if token is not None]


def differ(one: Sequence[int], other: Sequence[int]) -> float | None:
    """The share of positions with different tokens; None without any."""
    if not one or len(one) != len(other):
        return None
    return sum(mine != theirs for mine, theirs in zip(one, other, strict=True)) / len(one)
