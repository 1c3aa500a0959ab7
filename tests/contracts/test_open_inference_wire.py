"""Tensors between gateway and worker: what one side writes the other reads, both ways."""

import struct

import torch

from penstock.domain.models.tensors import Datatype, checked, elements_of
from penstock.gateway.oip.handled import form_of
from penstock.gateway.oip.nouns import InferRequest, Wanted, spec
from penstock.worker.engines.torch import infer
from tests.support.gateways.oip import HANDLER


def test_a_worker_reads_what_a_gateway_packs_and_back() -> None:
    """Pixels arrive as items of the handler, and its scores arrive as the caller's tensor."""
    form = form_of(HANDLER)
    pixels = checked(spec("pixels", Datatype.UINT8, 2, 2, 2), memoryview(bytes(range(8))))
    request = InferRequest(inputs=(pixels,))
    assert form.pack is not None
    sent = form.pack(request)
    asked = infer.read(sent.data, sent.head_bytes, HANDLER)
    assert [item["pixels"].flatten().tolist() for item in asked.items if isinstance(item, dict)] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
    ]
    rows = [{"scores": torch.tensor([0.5, 1.0])}, {"scores": torch.tensor([2.0, 3.0])}]
    body, _ = infer.write("labels@c", infer.Form(outputs=["scores"]), rows)
    (scores,) = form.answer(request, body).outputs
    assert scores.spec == spec("scores", Datatype.FP32, 2, 2)
    assert struct.unpack("<4f", scores.data) == (0.5, 1.0, 2.0, 3.0)


def test_classes_come_with_places_and_labels() -> None:
    """The highest values of each item, highest first, as texts; numbers of other outputs stay numbers."""
    form = form_of(HANDLER)
    pixels = checked(spec("pixels", Datatype.UINT8, 2, 2, 2), memoryview(bytes(range(8))))
    request = InferRequest(inputs=(pixels,), outputs=(Wanted(name="scores", classes=5),))
    assert form.pack is not None
    sent = form.pack(request)
    asked = infer.read(sent.data, sent.head_bytes, HANDLER)
    rows = [{"scores": torch.tensor([0.25, 0.75])}, {"scores": torch.tensor([2.0, 2.0])}]
    told = infer.Form(outputs=asked.outputs, classes=asked.classes, labels=["cat", "dog"])
    body, _ = infer.write("labels@c", told, rows)
    (scores,) = form.answer(request, body).outputs
    assert scores.spec == spec("scores", Datatype.BYTES, 2, 2)
    found = [bytes(one).decode() for one in elements_of(scores)]
    assert found == ["0.750000:1:dog", "0.250000:0:cat", "2.000000:0:cat", "2.000000:1:dog"]
