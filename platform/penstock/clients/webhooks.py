"""A client of the webhook routes: the public API only."""

from collections.abc import Mapping
from typing import Any

import httpx

from penstock.clients.chat import refused
from penstock.domain.command_error import CommandError

WEBHOOKS = "/v1/webhooks"


def ask(
    http: httpx.Client, method: str, path: str = "", body: object = None, query: Mapping[str, Any] | None = None
) -> Any:  # noqa: ANN401  the API's JSON
    """Return the answer's JSON; ``CommandError`` says what was refused."""
    try:
        answer = http.request(method, WEBHOOKS + path, json=body, params=query)
    except httpx.ConnectError:
        raise
    except httpx.HTTPError as error:
        raise CommandError(f"The answer broke off: {error}.", do="Look at `penstock status`.") from error
    if not answer.is_success:
        raise refused(answer)
    return answer.json()
