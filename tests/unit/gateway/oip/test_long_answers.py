"""Long answers in JSON: written in parts, the same to whoever reads them."""

import asyncio
import json
from array import array
from typing import Any

from penstock.gateway.calls.call import Call
from penstock.gateway.calls.relay import Reply
from penstock.gateway.oip.json_answers import AT_ONCE
from tests.support.gateways.oip import CLASSIFIER
from tests.support.gateways.oip_rest import PIXELS, post


def tensor(name: str, shape: list[int], data: bytes) -> dict[str, Any]:
    """Return what a worker tells of a tensor."""
    return {"name": name, "datatype": "FP32", "shape": shape, "parameters": {"binary_data_size": len(data)}}


async def test_a_long_answer_in_json_leaves_others_their_turn() -> None:
    """Its numbers are written in parts, and what waits on the loop goes on between them; the JSON is the same."""
    count = 40 * AT_ONCE + 3
    data = array("f", range(count)).tobytes()
    turns = 0

    async def many(call: Call, reply: Reply) -> None:
        told = {
            "name": "scores",
            "datatype": "FP32",
            "shape": [1, count],
            "parameters": {"binary_data_size": len(data)},
        }
        reply.start(200, [(b"x-penstock-version", CLASSIFIER.id.encode())])
        reply.write(json.dumps({"outputs": [told, {**told, "name": "more", "shape": [count]}]}).encode() + 2 * data)
        reply.finish()

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    waiting = asyncio.ensure_future(others())
    response, _ = await post({"inputs": [PIXELS]}, "labels", serve=many)
    waiting.cancel()
    first, second = response.json()["outputs"]
    assert (first["shape"], first["data"], second["data"]) == ([1, count], [*range(count)], [*range(count)])
    assert turns > 60


async def test_a_long_answer_is_as_wide_as_it_says() -> None:
    """Length, a tensor in binary form behind the numbers, and how much of it is JSON are told as ever."""
    count = 3 * AT_ONCE
    data = array("f", range(count)).tobytes()

    async def both(call: Call, reply: Reply) -> None:
        told = tensor("scores", [count], data)
        reply.start(200, [(b"x-penstock-version", CLASSIFIER.id.encode())])
        reply.write(json.dumps({"outputs": [told, {**told, "name": "raw"}]}).encode() + 2 * data)
        reply.finish()

    asked = [{"name": "scores"}]
    response, _ = await post(
        {"inputs": [PIXELS], "outputs": asked, "parameters": {"binary_data_output": True}}, "labels", serve=both
    )
    head = int(response.headers["inference-header-content-length"])
    scores, raw = json.loads(response.content[:head])["outputs"]
    assert (scores["data"], raw["parameters"]) == ([*range(count)], {"binary_data_size": len(data)})
    assert response.content[head:] == data
    assert int(response.headers["content-length"]) == len(response.content)
