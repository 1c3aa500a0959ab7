"""A client of the APIs for deferred work: jobs, files, batches.

It uses the public API only, and knows nothing of the gateway's inside.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import httpx

from penstock.clients.chat import refused
from penstock.clients.operator import Json
from penstock.domain.command_error import CommandError

WEBHOOKS = "/v1/webhooks"


def ask(
    http: httpx.Client, method: str, path: str = "", body: object = None, query: Mapping[str, Any] | None = None
) -> Any:  # noqa: ANN401  the API's JSON
    """Raises ``CommandError`` that says what was refused."""
    try:
        answer = http.request(method, WEBHOOKS + path, json=body, params=query)
    except httpx.ConnectError:
        raise
    except httpx.HTTPError as error:
        raise CommandError(f"The answer broke off: {error}.", do="Look at `penstock status`.") from error
    if not answer.is_success:
        raise refused(answer)
    return answer.json()


PAGE = 100
TRIES = 5
"""Attempts at a request that a gateway's restart, or its busy minute, may refuse: fifteen seconds in all."""
FIRST_WAIT_S = 1.0
AGAIN = frozenset({429, 502, 503})
ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
"""A batch's last states."""
JOB_ENDED = frozenset({"succeeded", "failed", "cancelled"})
CHUNK_BYTES = 1 << 20


class Caller:
    """Asks one gateway; ``sleep`` waits between attempts."""

    def __init__(self, http: httpx.Client, sleep: Callable[[float], None]) -> None:
        self._http, self._sleep = http, sleep

    def get(self, path: str) -> Json:
        return self._json("GET", path)

    def post(self, path: str, body: Mapping[str, object] | None = None) -> Json:
        """Send a POST under an idempotency key, so that a repeated attempt does nothing twice."""
        return self._json("POST", path, json=body, headers={"idempotency-key": secrets.token_hex(16)})

    def delete(self, path: str) -> Json:
        return self._json("DELETE", path)

    def each(self, path: str, query: Mapping[str, str], most: int) -> Iterator[Json]:
        asked, left = dict(query), most
        while left > 0:
            page = self._json("GET", path, params={**asked, "limit": str(min(PAGE, left))})
            yield from page["data"]
            left -= len(page["data"])
            if not page["has_more"]:
                return
            asked["after"] = page["last_id"]

    def upload(self, file: Path, purpose: str = "batch") -> Json:
        with file.open("rb") as opened:
            sent = {"file": (file.name, opened, "application/octet-stream")}
            return _checked(self._http.post("/v1/files", data={"purpose": purpose}, files=sent)).json()  # type: ignore[no-any-return]

    def content(self, file: str, to: BinaryIO) -> int:
        with self._http.stream("GET", f"/v1/files/{file}/content") as answer:
            if answer.is_error:
                answer.read()
                raise refused(answer)
            return sum(to.write(chunk) for chunk in answer.iter_bytes(CHUNK_BYTES))

    def until_ended(self, path: str, key: str, ends: frozenset[str], seen: Callable[[Json], float]) -> Json:
        """Ask for an object until its state is one of ``ends``; ``seen`` returns the seconds until the next look."""
        while (found := self.get(path))[key] not in ends:
            self._sleep(seen(found))
        seen(found)
        return found

    def _json(self, method: str, path: str, **options: object) -> Json:
        wait_s = FIRST_WAIT_S
        for attempt in range(1, TRIES + 1):
            try:
                answer = self._http.request(method, path, **options)  # type: ignore[arg-type]
            except httpx.ConnectError:
                if attempt == TRIES:
                    raise
            except httpx.HTTPError as error:
                if attempt == TRIES:
                    raise CommandError(f"The answer broke off: {error}.", do="Look at `penstock status`.") from error
            else:
                if answer.status_code not in AGAIN or attempt == TRIES:
                    return _checked(answer).json()  # type: ignore[no-any-return]
                wait_s = max(wait_s, float(answer.headers.get("retry-after", "0")))
            self._sleep(wait_s)
            wait_s *= 2
        raise AssertionError("the last attempt returns or raises")


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_error:
        raise refused(answer)
    return answer
