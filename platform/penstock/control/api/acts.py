"""Administrative acts: each runs alone, and completely or not at all; a failed one leaves no audit row. The control
loop is notified after an act is stored.
"""

from collections.abc import Awaitable, Callable, Collection
from functools import wraps
from typing import Any

from penstock.control.api.deps import Control
from penstock.control.api.wire import JsonRoute

READS = frozenset({"GET"})
Endpoint = Callable[..., Awaitable[object]]


class ActRoute(JsonRoute):
    """Runs a handler that may change something as one act; caller and body are checked before."""

    def __init__(
        self,
        path: str,
        endpoint: Endpoint,
        *,
        methods: Collection[str] | None = None,
        **options: Any,  # noqa: ANN401  FastAPI's own, twenty of them
    ) -> None:
        if not READS.issuperset(methods or READS):
            endpoint = one_act(endpoint)
        super().__init__(path, endpoint, methods=list(methods or READS), **options)


def one_act(endpoint: Endpoint) -> Endpoint:
    if hasattr(endpoint, "is_one_act"):  # a router that is included makes its routes again
        return endpoint

    @wraps(endpoint)
    async def act(*, control: Control, **given: object) -> object:
        async with control.acts():
            answer = await endpoint(control=control, **given)
        control.runtime.wake()
        return answer

    act.is_one_act = True  # type: ignore[attr-defined]
    return act
