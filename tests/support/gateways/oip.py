"""A gateway's edge with models of the Open Inference Protocol, and a toy that answers as their engines would."""

import json
import struct
from base64 import b64encode
from dataclasses import replace

from penstock.domain.fleet.table import Route, RoutingTable, Share, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import Alias, VersionId, WorkerId
from penstock.domain.models.model import HandlerSettings, Task
from penstock.domain.models.tensors import ANY, Datatype, TensorSpec
from penstock.domain.serving.request import Api, PackedTensors
from penstock.gateway.app.asgi import Edge
from penstock.gateway.calls.call import Call
from penstock.gateway.calls.relay import Reply
from penstock.gateway.openai.services import Facts
from penstock.intake.limits import Limits
from tests.support.gateways.toy import Serve, Toy, edge
from tests.support.samples.calls import VERSION

READY = WorkerEntry(id=WorkerId("w"), url="http://127.0.0.1:1", state=WorkerState.READY)
WRITER = replace(VERSION, id=VersionId("writer@aaaaaaaaaaaa"), digest="a" * 64, workers=(READY,))
EMBEDDER = replace(VERSION, id=VersionId("embedder@bbbbbbbbbbbb"), digest="b" * 64, task=Task.EMBED)
HANDLER = HandlerSettings(
    name="toy",
    inputs=(
        TensorSpec(name="pixels", datatype=Datatype.UINT8, shape=(ANY, 2, 2)),
        TensorSpec(name="image", datatype=Datatype.BYTES, shape=(ANY,)),
    ),
    outputs=(TensorSpec(name="scores", datatype=Datatype.FP32, shape=(ANY, 2)),),
    item_tokens=7,
    notes=(("pixels", "planes from 0 to 255"),),
)
CLASSIFIER = replace(
    VERSION, id=VersionId("labels@cccccccccccc"), digest="c" * 64, task=Task.CLASSIFY, handler=HANDLER, workers=(READY,)
)
TABLE = RoutingTable(
    number=1,
    made_at=1.0,
    versions=(WRITER, EMBEDDER, CLASSIFIER),
    routes=tuple(
        Route(alias=Alias(name), shares=(Share(version=version.id, weight=10_000),))
        for name, version in (("writer", WRITER), ("embedder", EMBEDDER), ("labels", CLASSIFIER))
    ),
)
VECTOR = (0.5, -0.25, 0.125)


async def answer(call: Call, reply: Reply) -> None:
    """Answer whole, as the engine of the model's own API and the relay do."""
    asked = call.request.body
    if call.request.tensors is not None:
        scores(call.request.tensors, reply)
        return
    if call.request.api is Api.COMPLETIONS:
        prompts = asked["prompt"] if isinstance(asked["prompt"], list) else [asked["prompt"]]
        said = [{"index": i, "text": f"<{text}>", "finish_reason": "length"} for i, text in enumerate(prompts)]
        body: dict[str, object] = {"choices": said[::-1], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    else:
        vector = b64encode(struct.pack("<3f", *VECTOR)).decode()
        count = len(asked["input"]) if isinstance(asked["input"], list) else 1
        body = {"data": [{"index": i, "embedding": vector} for i in range(count)], "usage": {"prompt_tokens": 3}}
    version = WRITER if call.request.api is Api.COMPLETIONS else EMBEDDER
    body["penstock"] = {"request_id": call.request.id, "version": version.id, "stages_ms": {"queue": 1.0}}
    raw = json.dumps(body).encode()
    reply.start(200, [(b"content-length", b"%d" % len(raw)), (b"x-penstock-version", version.id.encode())])
    reply.write(raw)
    reply.finish()


def scores(asked: PackedTensors, reply: Reply) -> None:
    """Answer as a handler's worker does: JSON, and behind it two scores for each item."""
    data = struct.pack(f"<{2 * asked.items}f", *range(2 * asked.items))
    told = {"name": "scores", "datatype": "FP32", "shape": [asked.items, 2]}
    head = json.dumps({"outputs": [{**told, "parameters": {"binary_data_size": len(data)}}]}).encode()
    reply.start(200, [(b"content-type", b"application/octet-stream"), (b"x-penstock-version", CLASSIFIER.id.encode())])
    reply.write(head + data)
    reply.finish()


def oip_edge(serve: Serve = answer, limits: Limits | None = None) -> tuple[Edge, Toy]:
    """Return the application around a toy, with both models."""
    toy = Toy(serve)
    made = edge(toy, limits or Limits(), Facts(table=lambda: TABLE, missing=lambda: ""))
    return replace(made, table=lambda: TABLE), toy
