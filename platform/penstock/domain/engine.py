"""What an engine says when its core is gone, and it can only answer for itself. Written for vLLM 0.32."""

_DEAD = (b'"message":"EngineCore encountered an issue', b'"message": "EngineCore encountered an issue')
"""As its server writes it; what a caller sends stands inside other quotes."""


def is_dead(answer: bytes) -> bool:
    """Tell whether this failure, an answer's body or an event's data, is of every request of this engine."""
    return any(mark in answer for mark in _DEAD)
