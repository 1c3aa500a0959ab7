"""Access to deferred work: by the credential alone, and only where routes were added."""

from collections.abc import Sequence

import httpx
import pytest
from fastapi import FastAPI, Request, Response

from penstock.gateway.deferred.access import Access, Routes
from penstock.gateway.deferred.shapes import answer
from penstock.intake.limits import Limits
from tests.support.gateways.toy import SECRET, Toy, edge, hello

KEY = {"authorization": f"Bearer {SECRET}"}


def routes(api: FastAPI, access: Access) -> None:
    async def mine(request: Request) -> Response:
        return answer({"tenant": access.caller(request).tenant})

    api.add_api_route("/v1/jobs", mine, methods=["GET", "POST", "DELETE"])


async def ask(headers: dict[str, str], method: str = "GET", deferred: Sequence[Routes] = (routes,)) -> httpx.Response:
    app = edge(Toy(hello), Limits(), deferred=deferred)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://g") as http:
        return await http.request(method, "/v1/jobs", headers=headers)


async def test_the_credential_names_the_tenant() -> None:
    """Headers that claim another tenant change nothing."""
    for headers in (KEY, {"x-api-key": SECRET}, {**KEY, "x-penstock-tenant": "other", "openai-organization": "other"}):
        assert (await ask(headers)).json() == {"tenant": "acme"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), ({"authorization": "Bearer psk_nobody_x"}, 401), ({**KEY, "x-api-key": "other"}, 400)],
)
async def test_a_stranger_is_refused(headers: dict[str, str], status: int) -> None:
    """Without a key, with one that nobody has, with two that differ."""
    assert (await ask(headers)).status_code == status


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_without_runners_there_is_nothing(method: str) -> None:
    """With and without a key: the paths are as unknown as any other."""
    for headers in (KEY, {}):
        told = await ask(headers, method, ())
        assert (told.status_code, told.json()["error"]["code"]) == (404, "route_not_found")
