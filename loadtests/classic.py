"""The classic models as the programs here use them: loaded in this process, and how each is asked of a platform."""

import base64
import http.client
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import grpc
import torch
from PIL import Image

from loadtests.rpc_client import SERVICE, message_class
from loadtests.sides import DEMO_CACHE, Side
from penstock.domain.models.model import Manifest, Provenance
from penstock.domain.models.tensors import BINARY_SIZE, HEAD_LENGTH
from penstock.packaging.demo_models import DEMO_MODELS, PICTURES
from penstock.worker.engines.torch import loading
from penstock.worker.engines.torch.handler import Features, Handler

CLASSIFIER, ENCODER, VISION = MODELS = ("topics", "minilm-torch", "efficientnet")
TEXT = "The patient has a high fever and a sore throat."
PICTURE = (PICTURES / "espresso.jpg").read_bytes()
LARGE_SIDE = 640
TIMING = "server-timing"
Ask = Callable[[], str]
"""Asks once, and returns the answer's ``Server-Timing``."""


def loaded(name: str, threads: int = 1) -> Handler:
    """Return the handler of a demo model, loaded from the cache as an engine loads it."""
    torch.set_num_threads(threads)
    choices = DEMO_MODELS[name].choices
    folder = next(DEMO_CACHE.glob(f"{name}-*"), None)
    if folder is None or not (folder / "model.safetensors").exists():
        raise SystemExit(f"there is no {name} in {DEMO_CACHE}: make models")
    manifest = Manifest(
        name=choices.name,
        task=choices.task,
        tier=choices.tier,
        files=(),
        price=choices.price,
        provenance=Provenance(origin=choices.origin, licence=choices.licence),
        engine=choices.engine,
        handler=choices.handler,
    )
    return loading.load(folder, manifest, "cpu")


def givens(name: str) -> dict[str, str | bytes]:
    """Return inputs as callers have them: a picture also as large as a small photograph."""
    if name != VISION:
        return {f"{len(TEXT)} characters": TEXT}
    out = io.BytesIO()
    Image.open(io.BytesIO(PICTURE)).resize((LARGE_SIDE, LARGE_SIDE)).save(out, "JPEG", quality=90)
    return {f"{len(one) / 1e3:.0f} kB": one for one in (PICTURE, out.getvalue())}


def computed(handler: Handler, rows: Sequence[Features]) -> Features:
    """Return the outputs of a batch, by a bare call."""
    with torch.inference_mode():
        return handler.forward({name: torch.stack([row[name] for row in rows]) for name in rows[0]})


def bare(handler: Handler) -> Callable[[str | bytes], None]:
    """Return a bare call: what an engine does for an item, and nothing else."""

    def call(given: str | bytes) -> None:
        row = handler.preprocess(given).features
        made = computed(handler, [row])
        handler.postprocess({output: one[0] for output, one in made.items()})

    return call


class NotAnswered(Exception):
    """A request was refused, or failed."""


# -- asking a platform -----------------------------------------------------------------


@dataclass
class Caller:
    """One caller of a platform, with a connection of its own for each protocol: it costs as little as Python can."""

    side: Side
    tenant: str
    _http: http.client.HTTPConnection = field(init=False)
    _rpc: Any = field(init=False)

    def __post_init__(self) -> None:
        at = urlsplit(self.side.url)
        self._http = http.client.HTTPConnection(at.hostname or "", at.port, timeout=60)
        self._rpc = grpc.insecure_channel(self.side.rpc).unary_unary(f"{SERVICE}ModelInfer")
        self._bearer = f"Bearer {self.side.keys[self.tenant]}"

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> str:
        """Send a body; raise ``NotAnswered`` unless the answer is a 200."""
        self._http.request("POST", path, body, {"authorization": self._bearer, **headers})
        answer = self._http.getresponse()
        words = answer.read()
        if answer.status != http.client.OK:
            raise NotAnswered(f"{path}: {answer.status} {words[:300]!r}")
        return answer.getheader(TIMING, "")

    def call(self, message: bytes) -> str:
        """Send a message; raise if it fails."""
        _, call = self._rpc.with_call(message, metadata=(("authorization", self._bearer),))
        return dict(call.trailing_metadata()).get(TIMING, "")

    def api(self, model: str, given: str | bytes) -> Ask:
        """Return how the model's own API is asked."""
        path = "/v1/embeddings" if model == ENCODER else "/v1/classify"
        text = f"data:image/jpeg;base64,{base64.b64encode(given).decode()}" if isinstance(given, bytes) else given
        body = json.dumps({"model": model, "input": text}).encode()
        return lambda: self.post(path, body, {"content-type": "application/json"})

    def rest(self, model: str, given: str | bytes) -> Ask:
        """Return how the Open Inference Protocol is asked over HTTP: one raw element."""
        name, element = _element(model, given)
        tensor = {"name": name, "shape": [1], "datatype": "BYTES", "parameters": {BINARY_SIZE: len(element)}}
        head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
        headers = {HEAD_LENGTH: str(len(head)), "content-type": "application/octet-stream"}
        return lambda: self.post(f"/v2/models/{model}/infer", head + element, headers)

    def rpc(self, model: str, given: str | bytes) -> Ask:
        """Return how it is asked over gRPC: one raw element."""
        name, element = _element(model, given)
        made = message_class("ModelInferRequest")(model_name=model)
        made.inputs.add(name=name, datatype="BYTES", shape=[1])
        made.raw_input_contents.append(element)
        message = bytes(made.SerializeToString())
        return lambda: self.call(message)


def _element(model: str, given: str | bytes) -> tuple[str, bytes]:
    """Return the input's name, and the element behind its length."""
    raw = given.encode() if isinstance(given, str) else given
    return "image" if model == VISION else "text", len(raw).to_bytes(4, "little") + raw
