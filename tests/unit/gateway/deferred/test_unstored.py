"""The Responses API of a platform without job runners: nothing is stored."""

from dataclasses import replace

import httpx
import pytest

from penstock.gateway.deferred.background_responses import UnstoredCorridor
from penstock.intake.limits import Limits
from tests.support.gateways.toy import SECRET, Toy, edge, hello


async def post(toy: Toy, **fields: object) -> httpx.Response:
    app = replace(edge(toy, Limits()), responses=UnstoredCorridor(corridor=toy))
    headers = {"authorization": f"Bearer {SECRET}"}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), base_url="http://gateway", headers=headers
    ) as http:
        return await http.post("/v1/responses", json={"model": "m", "input": "hi", **fields})


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"store": True}, "store"),
        ({"background": True}, "background"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ],
)
async def test_what_needs_a_store_is_refused(asked: dict[str, object], name: str) -> None:
    """By name: an answer that its caller could not find again would be worse."""
    toy = Toy(hello)
    refused = await post(toy, **asked)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, name)
    assert toy.seen.calls == []


async def test_all_other_requests_pass() -> None:
    """A field that asks for nothing does no harm, and reaches no engine."""
    toy = Toy(hello)
    assert (await post(toy)).status_code == httpx.codes.OK
    assert (await post(toy, store=False, background=False, previous_response_id=None)).status_code == httpx.codes.OK
    assert not {"store", "background", "previous_response_id"} & toy.seen.calls[-1].request.body.keys()
