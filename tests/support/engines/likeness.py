"""Compares answers of real engines, up to the rounding of batch, prompt cache and processor.

Rounding in bfloat16 decides between tokens that are equally likely. So texts are compared word for word only on prompts
with a clear lead at each token, draws by the share of many that agree, and other answers by their log probabilities.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

COUNTING = "1, 2, 3, 4, 5, 6, 7, 8,"
"""A prompt for completions: SmolLM2 counts on, each token far ahead of the next candidate."""
DRAWS = {"n": 8, "max_tokens": 6, "temperature": 2.0}
"""Many short draws of one seed: rounding moves few of them, another seed nearly all."""
ROUNDING = 0.25
"""Natural log: the most that bfloat16 moves a token's log probability here."""
ALTERNATIVES = {"logprobs": True, "top_logprobs": 3}
"""What a chat request asks for to be compared."""


@dataclass(frozen=True, kw_only=True)
class Token:
    """One token of an answer, its log probability, and those of its alternatives."""

    text: str
    logprob: float
    alternatives: Mapping[str, float]


def streamed(lines: Iterator[str]) -> Iterator[Token]:
    """Yield the tokens of a streamed chat answer."""
    for line in lines:
        if line.startswith("data: ") and line != "data: [DONE]":
            for choice in json.loads(line.removeprefix("data: "))["choices"]:
                for one in (choice.get("logprobs") or {}).get("content") or ():
                    others = {other["token"]: other["logprob"] for other in one["top_logprobs"]}
                    yield Token(text=one["token"], logprob=one["logprob"], alternatives=others)


def difference(one: Sequence[Token], other: Sequence[Token]) -> str:
    """Return what rounding does not explain between two greedy answers; empty if they are alike.

    They have equally many tokens, with the same log probabilities up to the first token that differs; there each of
    the two had the other's token as a close alternative. After it the answers are about different texts.
    """
    if len(one) != len(other):
        return f"{len(one)} tokens and {len(other)}"
    for number, (a, b) in enumerate(zip(one, other, strict=True)):
        if a.text != b.text:
            lead = max(_lead(a, b.text), _lead(b, a.text))
            return "" if lead < ROUNDING else f"token {number}: {a.text!r} or {b.text!r}, with a lead of {lead:.2f}"
        if abs(a.logprob - b.logprob) >= ROUNDING:
            return f"token {number}, {a.text!r}: log probability {a.logprob:.2f} and {b.logprob:.2f}"
    return ""


def agreeing(one: Sequence[str], other: Sequence[str]) -> float:
    """Return the share of draws that agree, one by one."""
    return sum(a == b for a, b in zip(one, other, strict=True)) / len(one)


def _lead(token: Token, other: str) -> float:
    return token.logprob - token.alternatives.get(other, -math.inf)
