"""Classic models asked by NVIDIA's own clients, over REST and gRPC, in binary form and in JSON, in every datatype."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from safetensors.numpy import save_file
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

from penstock.domain.models.tensors import Datatype
from penstock.formats.pictures import tokens_of_item
from penstock.packaging.demo_models import PICTURES, TOPICS_HEAD
from tests.support.clients.tensors import grpc_address
from tests.support.patience import until
from tests.support.platforms.local import Platform

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore:Protobuf gencode:UserWarning")]

Client = Any
"""NVIDIA's clients and their modules have no types."""
NUMBERS = [one for one in Datatype if one is not Datatype.BYTES]
IN_JSON = [one for one in NUMBERS if one not in (Datatype.FP16, Datatype.BF16)]
"""What NVIDIA's client writes as JSON's numbers."""
TOPIC_OF = {
    "Zeus": "mythology",
    "What is the square root of 144?": "mathematics",
    "The tank battalion advanced at dawn. " * 8: "military",
}
ECHO = """
import torch

from penstock.worker.engines.torch.handler import Features, Given, Handler, Prepared

KINDS = {"BOOL": "bool", "BF16": "bfloat16", "FP": "float", "UINT": "uint", "INT": "int"}


def dtype_of(name: str) -> torch.dtype:
    kind = next(kind for kind in KINDS if name.startswith(kind))
    return getattr(torch, KINDS[kind] + ("" if name in KINDS else name.removeprefix(kind)))


class Echo(Handler):
    def preprocess(self, given: Given) -> Prepared:
        if isinstance(given, bytes):
            given = {"FP32": torch.tensor([float(len(given)), float(given[0])])}
        return Prepared(features=dict(given), tokens=1)

    def forward(self, batch: Features) -> Features:
        return batch

    def example(self) -> Given:
        declared = (one.name for one in self.model.settings.outputs)
        return {name: torch.zeros(2, dtype=dtype_of(name)) for name in declared}
"""


@pytest.fixture(scope="module")
def clients(classic_platform: Platform) -> Iterator[dict[str, tuple[Client, Client]]]:
    """Yield module and client of each wire."""
    address = classic_platform.url.removeprefix("http://")
    with (
        triton_http.InferenceServerClient(address) as web,
        triton_grpc.InferenceServerClient(grpc_address(classic_platform)) as rpc,
    ):
        yield {"http": (triton_http, web), "grpc": (triton_grpc, rpc)}


@pytest.fixture
def auth(classic_platform: Platform) -> dict[str, str]:
    """Return the demo tenant's key as the clients send it, which write into what they get."""
    return {"authorization": f"Bearer {classic_platform.demo_key}"}


@pytest.fixture(scope="module")
def echo(classic_platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield a served model that takes a tensor of any datatype and gives it back."""
    folder = tmp_path_factory.mktemp("push") / "echo"
    version = pushed(classic_platform, folder)
    classic_platform.run("aliases", "set", "echo", version)

    def serves() -> bool:
        with classic_platform.http() as http:
            return http.get("/v2/models/echo/ready").status_code == 200

    until("its worker serves", serves, within_s=90, every_s=0.5)
    yield "echo"
    classic_platform.run("models", "scale", version, "0")


def pushed(platform: Platform, folder: Path) -> str:
    """Push the model and return its version."""
    folder.mkdir()
    (folder / "handler.py").write_text(ECHO)
    names = sorted(NUMBERS, key=lambda one: one != "FP32")
    outputs: list[dict[str, Any]] = [{"name": name, "datatype": name, "shape": [-1, 2]} for name in names]
    inputs: list[dict[str, Any]] = [{**one, "optional": True} for one in outputs]
    inputs.append({"name": "BYTES", "datatype": "BYTES", "shape": [-1]})
    described = {"task": "embed", "inputs": inputs, "outputs": outputs, "item_tokens": 1}
    (folder / "handler.json").write_text(json.dumps(described))
    save_file({"nothing": np.zeros(1, dtype=np.float32)}, folder / "model.safetensors")
    options = ("--name", "echo", "--price", "0.01/0.01/0", "--licence", "Apache-2.0", "--workers", "1")
    return platform.run("models", "push", str(folder), *options).stdout.split()[-1]


def asked(module: Client, name: str, values: np.ndarray, datatype: str, **how: bool) -> Client:
    made = module.InferInput(name, list(values.shape), datatype)
    made.set_data_from_numpy(values, **how)
    return made


def values_of(datatype: Datatype) -> np.ndarray:
    """Return two rows of a datatype's edges, which JSON and both wires must keep."""
    if datatype is Datatype.BOOL:
        return np.array([[True, False], [False, True]])
    if datatype is Datatype.BF16:
        return np.array([[1.5, -2.0], [0.0, 3.0e38]], dtype=triton_to_np_dtype(datatype))
    kind = triton_to_np_dtype(datatype)
    edges = np.finfo(kind) if np.issubdtype(kind, np.floating) else np.iinfo(kind)
    return np.array([[edges.min, edges.max], [0, 1]], dtype=kind)


@pytest.mark.parametrize("wire", ["http", "grpc"])
def test_every_datatype_comes_back_as_it_went(
    clients: dict[str, tuple[Client, Client]], auth: dict[str, str], echo: str, wire: str
) -> None:
    """Least and greatest numbers of each, in binary form and, over REST, in JSON both ways."""
    module, client = clients[wire]
    for datatype in NUMBERS:
        sent = values_of(datatype)
        found = client.infer(echo, [asked(module, datatype, sent, datatype)], headers={**auth})
        np.testing.assert_array_equal(found.as_numpy(datatype), sent)
    for datatype in IN_JSON if wire == "http" else ():
        inputs = [asked(module, datatype, values_of(datatype), datatype, binary_data=False)]
        outputs = [module.InferRequestedOutput(datatype, binary_data=False)]
        found = client.infer(echo, inputs, outputs=outputs, headers={**auth})
        np.testing.assert_array_equal(found.as_numpy(datatype), values_of(datatype))


@pytest.mark.parametrize("wire", ["http", "grpc"])
def test_bytes_and_numbers_are_rows_of_one_answer(
    clients: dict[str, tuple[Client, Client]], auth: dict[str, str], echo: str, wire: str
) -> None:
    """An element of BYTES is an item; two tensors of one request stay together, row by row."""
    module, client = clients[wire]
    words = np.array([b"a", b"\xff\x00bc"], dtype=np.object_)
    found = client.infer(echo, [asked(module, "BYTES", words, "BYTES")], headers={**auth})
    assert found.as_numpy("FP32").tolist() == [[1.0, 97.0], [4.0, 255.0]]
    both = [asked(module, kind, values_of(Datatype(kind)), kind) for kind in ("INT16", "FP64")]
    found = client.infer(echo, both, headers={**auth})
    for kind in ("INT16", "FP64"):
        np.testing.assert_array_equal(found.as_numpy(kind), values_of(Datatype(kind)))


@pytest.mark.parametrize("wire", ["http", "grpc"])
def test_images_and_planes_have_the_same_scores(
    clients: dict[str, tuple[Client, Client]], auth: dict[str, str], wire: str
) -> None:
    """The image model by its description: pictures as BYTES get their labels, planes scores that add up to 1."""
    module, client = clients[wire]
    told = client.get_model_metadata("efficientnet", headers={**auth})
    inputs = told["inputs"] if wire == "http" else told.inputs
    assert {one["name"] if wire == "http" else one.name for one in inputs} == {"image", "pixels"}
    pictures = np.array([(PICTURES / f"{name}.jpg").read_bytes() for name in ("espresso", "tripod")], dtype=np.object_)
    scores = client.infer("efficientnet", [asked(module, "image", pictures, "BYTES")], headers={**auth})
    assert scores.as_numpy("scores").argmax(1).tolist() == [967, 872]
    outputs = [module.InferRequestedOutput("scores", class_count=2)]
    found = client.infer("efficientnet", [asked(module, "image", pictures, "BYTES")], outputs=outputs, headers={**auth})
    told = [one.decode().split(":") for one in found.as_numpy("scores")[:, 0]]
    assert [(place, label) for _, place, label in told] == [("967", "espresso"), ("872", "tripod")]
    assert [float(score) for score, _, _ in told] == pytest.approx(scores.as_numpy("scores").max(1), abs=1e-5)
    said = found.get_response()["parameters"] if wire == "http" else found.get_response().parameters
    tokens = said["prompt_tokens"] if wire == "http" else said["prompt_tokens"].int64_param
    assert (tokens, "items" in said) == (512 + sum(map(tokens_of_item, pictures)), True)
    stages = json.loads(said["stages_ms"] if wire == "http" else said["stages_ms"].string_param)
    assert {"queue", "prepare", "compute"} <= stages.keys()
    planes = np.random.default_rng(7).normal(size=(3, 3, 224, 224)).astype(np.float32)
    scores = client.infer("efficientnet", [asked(module, "pixels", planes, "FP32")], headers={**auth})
    assert scores.as_numpy("scores").sum(1) == pytest.approx([1.0] * 3, abs=1e-4)


def test_planes_in_json_have_the_scores_of_planes_in_binary_form(
    clients: dict[str, tuple[Client, Client]], auth: dict[str, str]
) -> None:
    """Three megabytes of numbers as text are the same numbers."""
    module, client = clients["http"]
    planes = np.random.default_rng(7).normal(size=(1, 3, 224, 224)).astype(np.float32)
    found = [
        client.infer("efficientnet", [asked(module, "pixels", planes, "FP32", binary_data=how)], headers={**auth})
        for how in (True, False)
    ]
    np.testing.assert_allclose(found[0].as_numpy("scores"), found[1].as_numpy("scores"), atol=1e-7)


@pytest.mark.parametrize("wire", ["http", "grpc"])
def test_a_timeout_of_nvidias_clients_ends_a_request(
    clients: dict[str, tuple[Client, Client]], auth: dict[str, str], wire: str
) -> None:
    """A microsecond is too little for anything, and the client hears of its deadline."""
    module, client = clients[wire]
    planes = asked(module, "pixels", np.zeros((1, 3, 224, 224), dtype=np.float32), "FP32")
    with pytest.raises(InferenceServerException, match=r"(?i)deadline"):
        client.infer("efficientnet", [planes], timeout=1, headers={**auth})


@pytest.mark.parametrize("wire", ["http", "grpc"])
def test_texts_are_embedded(clients: dict[str, tuple[Client, Client]], auth: dict[str, str], wire: str) -> None:
    """The torch encoder's vectors, of length 1, for texts in any script."""
    module, client = clients[wire]
    texts = np.array([b"a cat", "слон и 象".encode()], dtype=np.object_)
    found = client.infer("minilm-torch", [asked(module, "text", texts, "BYTES")], headers={**auth})
    assert np.linalg.norm(found.as_numpy("embedding"), axis=1) == pytest.approx([1.0, 1.0], abs=1e-5)


@pytest.mark.parametrize("wire", ["http", "grpc"])
def test_texts_are_classified(clients: dict[str, tuple[Client, Client]], auth: dict[str, str], wire: str) -> None:
    """Texts as BYTES, as long as a word or a paragraph, get scores that add up to 1 and are highest for their topic."""
    module, client = clients[wire]
    texts = np.array([text.encode() for text in TOPIC_OF], dtype=np.object_)
    found = client.infer("topics", [asked(module, "text", texts, "BYTES")], headers={**auth}).as_numpy("scores")
    labels = (TOPICS_HEAD / "labels.txt").read_text().splitlines()
    assert [labels[i] for i in found.argmax(1)] == list(TOPIC_OF.values())
    assert found.sum(1) == pytest.approx([1.0] * len(TOPIC_OF), abs=1e-5)
    best = [module.InferRequestedOutput("scores", class_count=1)]
    told = client.infer("topics", [asked(module, "text", texts, "BYTES")], outputs=best, headers={**auth})
    assert [row.decode().split(":")[2] for row in told.as_numpy("scores").flatten()] == list(TOPIC_OF.values())
