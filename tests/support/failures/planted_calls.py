"""Calls with planted text that no table of fields describes: the Open Inference Protocol's, and the operators'."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import grpc
import httpx
import tritonclient.grpc as triton
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from penstock.control.api.app import ADMIN, make_app
from tests.support.clients.tensors import grpc_address
from tests.support.clock import ManualClock
from tests.support.controllers.in_memory import Room
from tests.support.failures.planted import DEPTH, SECRET
from tests.support.platforms.local import Platform

OPERATED = "plantedZq7Operated"
"""In what operators name: rows of their acts may hold it, logs and metrics may not."""
PERSON = "plantedZq7Person"
"""The user of a deletion: a keyed digest of it is in a row, and itself nowhere."""
SERVICE = triton.service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
TENSORS = {
    "id": "1",
    "inputs": [{"name": "text_input", "datatype": "BYTES", "shape": [1], "data": ["hi"], "parameters": {}}],
    "outputs": [{"name": "text_output", "parameters": {}}],
    "parameters": {"max_tokens": 1},
}
Answered = dict[Any, int]
"""Calls by how they ended."""


def over_grpc(platform: Platform, model: str) -> Answered:
    """Call each method of the service with the text in each field of its request, and in metadata."""
    ended: Answered = {}
    named = (("authorization", f"Bearer {platform.demo_key}"), ("x-note", SECRET), ("idempotency-key", SECRET))
    with grpc.insecure_channel(grpc_address(platform)) as channel:
        for method in SERVICE.methods:
            for message in planted(_least_message(method.input_type.name, model)):
                path, raw = f"/{SERVICE.full_name}/{method.name}", message.SerializeToString()
                try:
                    if method.client_streaming:
                        streamed: Any = channel.stream_stream(path)
                        [*streamed(iter([raw]), metadata=named, timeout=60)]
                    else:
                        plain: Any = channel.unary_unary(path)
                        plain(raw, metadata=named, timeout=60)
                    code = grpc.StatusCode.OK
                except grpc.RpcError as error:
                    code = error.code()
                ended[code] = ended.get(code, 0) + 1
    return ended


def _least_message(name: str, model: str) -> Message:
    made: Any = getattr(triton.service_pb2, name)()
    if name == "ModelInferRequest":
        made.model_name = model
        one = made.inputs.add(name="text_input", datatype="BYTES", shape=[1])
        one.contents.bytes_contents.append(b"hi")
        made.outputs.add(name="text_output")
        made.parameters["max_tokens"].int64_param = 1
    return made  # type: ignore[no-any-return]


def planted(message: Message) -> Iterator[Message]:
    """Yield copies of a message, each with the text in one field, of its parts, too."""
    for field in message.DESCRIPTOR.fields:
        for change in _changes(message, field):
            copy: Any = type(message)()
            copy.CopyFrom(message)
            change(copy)
            yield copy


def _changes(message: Any, field: Any) -> Iterator[Any]:  # noqa: ANN401  protobuf's own
    name, is_list = field.name, field.is_repeated
    if field.type in {field.TYPE_STRING, field.TYPE_BYTES}:
        text = SECRET if field.type == field.TYPE_STRING else SECRET.encode()
        yield (lambda copy: getattr(copy, name).extend([text])) if is_list else (lambda copy: setattr(copy, name, text))
        if is_list and len(getattr(message, name)):
            yield lambda copy: getattr(copy, name).__setitem__(0, text)
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        kind = GetMessageClass(field.message_type.fields_by_name["value"].message_type)
        yield lambda copy: getattr(copy, name)[SECRET].CopyFrom(next(planted(kind()), kind()))
    elif field.message_type is not None and is_list:
        for inner in (one for first in getattr(message, name)[:1] for one in planted(first)):
            yield lambda copy, inner=inner: getattr(copy, name)[0].CopyFrom(inner)
    elif field.message_type is not None:
        for inner in planted(getattr(message, name)):
            yield lambda copy, inner=inner: getattr(copy, name).CopyFrom(inner)


def over_rest(http: httpx.Client, model: str) -> Answered:
    """Ask the protocol's REST API with the text in place of each text, and as a name beside each."""
    ended: Answered = {}
    for body in _replaced(TENSORS, SECRET):
        status = http.post(f"/v2/models/{model}/infer", json=body).status_code
        ended[status] = ended.get(status, 0) + 1
    return ended


def _replaced(value: Any, text: str) -> Iterator[Any]:  # noqa: ANN401  JSON
    if isinstance(value, str):
        yield text
    elif isinstance(value, list):
        for number, one in enumerate(value):
            for other in _replaced(one, text):
                yield [*value[:number], other, *value[number + 1 :]]
    elif isinstance(value, dict):
        yield {**value, text: text}
        for name, one in value.items():
            for other in _replaced(one, text):
                yield {**value, name: other}


# -- operators ------------------------------------------------------------------------------


def over_admin(platform: Platform) -> Answered:
    """Call each route of the operators' API with the text in each parameter and each text field of its body."""
    ended: Answered = {}
    headers = {"authorization": f"Bearer {platform.admin_key}"}
    with httpx.Client(base_url=platform.controller_url, headers=headers, trust_env=False, timeout=60) as http:
        for method, path, query, body in operated():
            status = http.request(method, path, params=query, json=body).status_code
            ended[status] = ended.get(status, 0) + 1
    return ended


def operated() -> Iterator[tuple[str, str, dict[str, str], Any]]:
    """Yield method, path, query and body of each call; none changes what the demo tenant is served by."""
    document = make_app(Room(ManualClock()).control).openapi()
    schemas = Schemas(document["components"]["schemas"])
    for path, operations in document["paths"].items():
        for method, told in operations.items() if path.startswith(ADMIN) else ():
            known = {one["name"] for one in told.get("parameters", ()) if one["in"] == "path"}
            filled = path.format_map({**dict.fromkeys(known, "none"), "tenant": "demo"})
            for name in known:
                yield method, path.format_map({**dict.fromkeys(known, "none"), name: OPERATED}), {}, None
            for one in told.get("parameters", ()):
                if one["in"] == "query":
                    yield method, filled, {one["name"]: OPERATED}, None
            for body in told.get("requestBody", {}).get("content", {}).values():
                for value in schemas.planted(body["schema"], "", DEPTH):
                    yield method, filled, {}, value


class Schemas:
    """JSON schemas of bodies, and values that hold the text."""

    def __init__(self, known: dict[str, Any]) -> None:
        self._known = known

    def planted(self, schema: Any, name: str, depth: int) -> Iterator[Any]:  # noqa: ANN401  JSON
        schema = self._resolved(schema)
        for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
            yield from self.planted(one, name, depth)
        if schema.get("type") == "string":
            yield PERSON if name == "user" else OPERATED
        if not depth:
            return
        for one in self.planted(schema["items"], name, depth - 1) if "items" in schema else ():
            yield [one]
        least = self._least(schema)
        for inner, one in schema.get("properties", {}).items():
            for value in self.planted(one, inner, depth - 1):
                yield {**least, inner: value}
        if schema.get("type") == "object":
            yield {**least, OPERATED: OPERATED}

    def _resolved(self, schema: Any) -> Any:  # noqa: ANN401  JSON
        return self._known[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema

    def _least(self, schema: Any) -> Any:  # noqa: ANN401  JSON
        schema = self._resolved(schema)
        if "default" in schema or "enum" in schema:
            return deepcopy(schema.get("default", schema.get("enum", [None])[0]))
        if schema.get("type") == "object":
            return {name: self._least(schema["properties"][name]) for name in schema.get("required", ())}
        kinds: dict[Any, Any] = {"string": "x", "integer": 1, "number": 1, "boolean": False, "array": []}
        return kinds.get(schema.get("type"))
