"""The protocol's read routes over REST: health, models, metadata. Models need a key.

They are answered from the present routing table; no worker is asked.
"""

from collections.abc import Callable, Mapping

import msgspec
from fastapi import FastAPI, Request, Response

from penstock import __version__
from penstock.domain.errors import Draining, MalformedBody, NoCapacity
from penstock.domain.models.tensors import TensorSpec
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.oip import catalogue
from penstock.gateway.oip.json_answers import described
from penstock.gateway.openai.services import READY_RETRY_S, Facts

ROOT = "/v2"
SERVER = "penstock"
EXTENSIONS = ("binary_tensor_data", "classification", "parameters")
MODEL = f"{ROOT}/models/{{model}}"
VERSION = f"{MODEL}/versions/{{version}}"
Caller = Callable[[Request], Principal]


class _InferCall(msgspec.Struct):
    ready: bool = False


_INDEX = msgspec.json.Decoder(_InferCall)


def add_oip(api: FastAPI, caller: Caller, facts: Facts) -> None:
    _add_server(api, facts)
    _add_models(api, caller, facts)

    @api.post(f"{ROOT}/repository/index")
    async def index(request: Request) -> Response:
        who = caller(request)
        lines = catalogue.index(facts.table(), who, only_ready=_only_ready(await request.body()))
        return _json(lines)


def _add_server(api: FastAPI, facts: Facts) -> None:
    @api.get(ROOT)
    async def server() -> Response:
        return _json({"name": SERVER, "version": __version__, "extensions": EXTENSIONS})

    @api.get(f"{ROOT}/health/live")
    async def live() -> Response:
        return _json({"live": True})

    @api.get(f"{ROOT}/health/ready")
    async def ready() -> Response:
        if facts.draining():
            raise Draining(retry_after_s=READY_RETRY_S)
        if facts.missing():
            raise NoCapacity("not ready", retry_after_s=READY_RETRY_S)
        return _json({"ready": True})


def _add_models(api: FastAPI, caller: Caller, facts: Facts) -> None:
    async def model(request: Request, model: str, version: str = "") -> Response:
        told = catalogue.metadata(facts.table(), caller(request), model, version)
        inputs, outputs = ([_tensor(one, told.notes) for one in tensors] for tensors in (told.inputs, told.outputs))
        plain = {"name": told.name, "versions": told.versions, "platform": told.platform}
        ways = {"parameters": {"inputs": told.ways}} if told.ways else {}
        return _json({**plain, "inputs": inputs, "outputs": outputs, **ways})

    async def ready(request: Request, model: str, version: str = "") -> Response:
        found = catalogue.find(facts.table(), caller(request), model, version)
        if not catalogue.is_ready(found.version):
            raise NoCapacity(retry_after_s=found.version.start_s or None)
        return _json({"name": model, "ready": True})

    for path in (MODEL, VERSION):
        api.add_api_route(path, model, methods=["GET"])
        api.add_api_route(f"{path}/ready", ready, methods=["GET"])


def _tensor(spec: TensorSpec, notes: Mapping[str, str]) -> dict[str, object]:
    note = notes.get(spec.name)
    return {**described(spec), "parameters": {"note": note}} if note else described(spec)


def _only_ready(body: bytes) -> bool:
    try:
        return bool(body) and _INDEX.decode(body).ready
    except msgspec.MsgspecError as error:
        raise MalformedBody from error


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
