"""Recognition of engine failures that affect more than one request: the core has died (vLLM 0.32), or the handler
failed.
"""

_DEAD = (b'"message":"EngineCore encountered an issue', b'"message": "EngineCore encountered an issue')
"""As its server writes it; what a caller sends stands inside other quotes."""

HANDLER_FAILED = "handler"
"""The reason that a torch engine's failure names where the fault is its handler's, or what the handler gave."""


def is_dead(answer: bytes) -> bool:
    """Tell whether this error, a body or an event's data, says that the whole engine has failed."""
    return any(mark in answer for mark in _DEAD)
