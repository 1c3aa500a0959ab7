"""Recognises errors that affect more than one request: a dead engine core (vLLM 0.32), or a failed handler."""

_DEAD = (b'"message":"EngineCore encountered an issue', b'"message": "EngineCore encountered an issue')
"""The message as vLLM's server writes it; a caller's text stands inside other quotes."""

HANDLER_FAILED = "handler"
"""The failure reason of a torch engine if the handler, or its output, is at fault."""


def is_dead(answer: bytes) -> bool:
    """Tell whether this error, a body or an event's data, says that the whole engine has failed."""
    return any(mark in answer for mark in _DEAD)


GRAMMAR_ENDED = (
    "the grammar that response_format, structured_outputs or tools ask for allows no further token here, or takes too "
    "long for each: a rule that can be read in many ways does"
)
"""An engine's refusal in the middle of an answer: the caller's grammar is at fault, and its tokens are billed."""
