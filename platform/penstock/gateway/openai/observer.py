"""Who is told of requests that end in an error response; the composition root counts and logs them."""

from typing import Protocol

from penstock.domain.errors import PenstockError
from penstock.domain.ids import RequestId


class ErrorObserver(Protocol):
    """Told of every request that ends in an error response."""

    def refused(self, error: PenstockError, request_id: RequestId) -> None:
        """Count an error response by its code."""
        ...

    def crashed(self, error: BaseException, request_id: RequestId) -> None:
        """Log a fault of our own: its kind, never its text, which may hold a prompt."""
        ...
