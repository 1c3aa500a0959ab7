"""Bodies of chat requests that keep an engine busy for a known part of its work, each with the canary in its prompt."""

from tests.support.failures.table import CANARY

CHAT = "/v1/chat/completions"


PATIENT = {"x-penstock-deadline-ms": "110000"}
"""The header of callers that say how long they wait: no queue timeout sends them away before."""


def chat(text: str = "Hi", **fields: object) -> dict[str, object]:
    """Return a chat request, for few tokens by default."""
    turn = {"role": "user", "content": f"{CANARY} {text}"}
    return {"model": "smollm2", "messages": [turn], "max_tokens": 4, "temperature": 0, **fields}


def long_answer(tokens: int = 1500, **fields: object) -> dict[str, object]:
    """Return a request that decodes for tens of seconds."""
    return chat("Count.", max_tokens=tokens, ignore_eos=True, **fields)


def long_prompt(number: int, tokens: int = 1800, **fields: object) -> dict[str, object]:
    """Return a request with a second or so of prefill; ``number`` makes it miss the prefix cache."""
    return chat(f"{number} " + "word " * tokens, **fields)
