"""One request of the Open Inference Protocol over both of its wires, by hand: also what no client would send."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import httpx
import tritonclient.grpc as triton_grpc

from tests.support.platforms.local import Platform

INFER = "/inference.GRPCInferenceService/ModelInfer"
MOST_BYTES = [("grpc.max_send_message_length", -1)]


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A tensor as it is claimed to be, and its bytes."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: bytes


@dataclass(frozen=True, kw_only=True)
class Ask:
    model: str
    inputs: Sequence[Sent]
    version: str = ""
    outputs: Sequence[str] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """What a caller was told; ``code`` is the platform's own word, ``kind`` the wire's."""

    kind: object
    code: str
    message: str


def over_http(platform: Platform, ask: Ask) -> Refusal | bytes:
    """Send it as JSON with the tensors' bytes behind it; return the answer's body, or what was told instead."""
    version = f"/versions/{ask.version}" if ask.version else ""
    told = [{**_spec(one), "parameters": {"binary_data_size": len(one.data)}} for one in ask.inputs]
    head = json.dumps({"inputs": told, "outputs": [{"name": name} for name in ask.outputs]}).encode()
    with platform.http() as http:
        answer = http.post(
            f"/v2/models/{ask.model}{version}/infer",
            content=head + b"".join(one.data for one in ask.inputs),
            headers={"inference-header-content-length": str(len(head)), **ask.headers},
        )
    if answer.status_code == httpx.codes.OK:
        return answer.content
    error = answer.json()
    return Refusal(kind=answer.status_code, code=error["code"], message=error["error"])


def over_grpc(platform: Platform, ask: Ask) -> Refusal | bytes:
    """Send it with raw contents; return the answer's message, or what was told instead."""
    request: Any = triton_grpc.service_pb2.ModelInferRequest(model_name=ask.model, model_version=ask.version)
    for one in ask.inputs:
        request.inputs.add(**_spec(one))
        request.raw_input_contents.append(one.data)
    for name in ask.outputs:
        request.outputs.add(name=name)
    metadata = (("authorization", f"Bearer {platform.demo_key}"), *ask.headers.items())
    with grpc.insecure_channel(grpc_address(platform), options=MOST_BYTES) as channel:
        call: Any = channel.unary_unary(INFER)
        try:
            answer: bytes = call(request.SerializeToString(), metadata=metadata, timeout=60)
        except grpc.RpcError as error:
            told: Any = error.trailing_metadata() or ()
            code = dict(told).get("x-penstock-code", "")
            return Refusal(kind=error.code(), code=code, message=error.details() or "")
    return answer


def grpc_address(platform: Platform) -> str:
    """Return the gRPC address that the platform names."""
    return (Path(platform.home) / "run/gateway.grpc.addr").read_text()


def _spec(one: Sent) -> dict[str, Any]:
    return {"name": one.name, "datatype": one.datatype, "shape": list(one.shape)}
