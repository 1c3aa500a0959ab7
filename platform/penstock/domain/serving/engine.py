"""What an engine says of a failure that is not the request's: its core is gone (vLLM 0.32), or its handler failed."""

_DEAD = (b'"message":"EngineCore encountered an issue', b'"message": "EngineCore encountered an issue')
"""As its server writes it; what a caller sends stands inside other quotes."""

HANDLER_FAILED = "handler"
"""The reason that a torch engine's failure names where the fault is its handler's, or what the handler gave."""


def is_dead(answer: bytes) -> bool:
    """Tell whether this failure, a body or an event's data, is of the whole engine."""
    return any(mark in answer for mark in _DEAD)
