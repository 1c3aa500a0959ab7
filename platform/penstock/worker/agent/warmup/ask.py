"""The warm-up's port to an engine."""

from collections.abc import Mapping
from typing import Protocol

from penstock.domain.errors import EngineError


class EngineRefused(EngineError):
    """The engine refused the request."""


class Ask(Protocol):
    """Sends a JSON body to an API path of the engine and returns the JSON answer."""

    async def __call__(self, path: str, body: Mapping[str, object], timeout_s: float) -> Mapping[str, object]:
        """Raises ``OSError``, ``EngineRefused`` or another ``EngineError``."""
        ...
