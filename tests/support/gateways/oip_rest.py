"""Requests of the Open Inference Protocol over REST, to an edge around a toy."""

import json

import httpx

from tests.support.gateways.oip import answer, oip_edge
from tests.support.gateways.toy import SECRET, Serve, Toy

AUTH = {"authorization": f"Bearer {SECRET}"}
TEXT = {"name": "text_input", "shape": [1], "datatype": "BYTES", "data": ["hi"]}
PIXELS = {"name": "pixels", "shape": [2, 2, 2], "datatype": "UINT8", "data": list(range(8))}


async def post(
    body: object, model: str = "writer", headers: dict[str, str] | None = None, *, serve: Serve = answer
) -> tuple[httpx.Response, Toy]:
    """Send an inference request; ``body`` is JSON or bytes."""
    app, toy = oip_edge(serve)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    path = model if model.startswith("/") else f"/v2/models/{model}/infer"
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://g") as http:
        return await http.post(path, content=raw, headers={**AUTH, **(headers or {})}), toy


async def get(path: str, **headers: str) -> httpx.Response:
    app, _ = oip_edge()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://g") as http:
        return await http.get(path, headers={**AUTH, **headers})
