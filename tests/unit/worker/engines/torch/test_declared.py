"""A handler's outputs, held against what its version declares, at its warm-up and for each batch."""

import math
import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import pytest
import torch

from penstock.domain.models.tensors import Datatype, TensorSpec
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.worker.engines.torch.handler import Features
from tests.support.engines.torch_handler import SETTINGS, Toy, asked, model, running, told_by

X = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": struct.pack("<2f", 1, 2)}


UNDECLARED: dict[str, tuple[Features, str]] = {
    "name": (
        {"hourz": torch.zeros(1, 2), "scores": torch.zeros(1, 2)},
        "declares output hours and gives hourz, scores",
    ),
    "dtype": (
        {"scores": torch.zeros(1, 2), "hours": torch.zeros(1, 2).double()},
        "hours is declared FP32 [-1, 2], not",
    ),
    "width": ({"scores": torch.zeros(1, 2), "hours": torch.zeros(1, 3)}, "[-1, 2], not FP32 [-1, 3]"),
    "rank": ({"scores": torch.zeros(1, 2), "hours": torch.zeros(1)}, "[-1, 2], not FP32 [-1]"),
    "no datatype": ({"scores": torch.zeros(1, 2), "hours": torch.zeros(1, 2).cfloat()}, "not torch.complex64 [-1, 2]"),
}


@pytest.mark.parametrize(("made", "says"), UNDECLARED.values(), ids=UNDECLARED.keys())
async def test_a_handler_that_gives_other_outputs_than_it_declares_fails_its_warm_up(made: Features, says: str) -> None:
    """It became ready, and each of its requests was a 502."""

    class Other(Toy):
        def forward(self, batch: Features) -> Features:
            return {name: one.repeat(len(batch["x"]), *[1] * (one.dim() - 1)) for name, one in made.items()}

    hours = TensorSpec(name="hours", datatype=Datatype.FP32, shape=(-1, 2))
    settings = replace(SETTINGS, outputs=(*SETTINGS.outputs, hours))
    async with running(Other(model(settings))) as engine:
        for path in (Api.CLASSIFY, Api.EMBEDDINGS):
            answer = await engine.post(path, {"examples": 1}, tenant=PLATFORM)
            assert (answer.status, says in answer.json["error"]["message"]) == (500, True)


class Unlike(Toy):
    """What it gives for some texts is not what it declares."""

    def forward(self, batch: Features) -> Features:
        made, lengths = dict(super().forward(batch)), batch["x"][:, 0].tolist()
        for text, other in self.others.items():
            if len(text) in lengths:
                made = {name: one.repeat(len(lengths), *[1] * (one.dim() - 1)) for name, one in other.items()}
        return made

    others: ClassVar[Mapping[str, Features]] = {
        "a wider one": {"scores": torch.zeros(1, 4)},
        "whole numbers": {"scores": torch.zeros(1, 2).long()},
        "no such name": {"points": torch.zeros(1, 2)},
        "one dimension": {"scores": torch.zeros(1)},
    }


class UnlikeAfter(Unlike):
    """The same, with postprocessing of its own."""

    def postprocess(self, row: Features) -> Features:
        return dict(row)


@pytest.mark.parametrize("kind", [Unlike, UnlikeAfter])
@pytest.mark.parametrize("text", Unlike.others)
async def test_outputs_unlike_the_declaration_are_the_model_s_fault(
    kind: type[Unlike], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Only the warm-up looked: a request was answered 200 with four values of a declared two, or whole numbers."""
    element = len(text).to_bytes(4, "little") + text.encode()
    async with running(kind(model())) as engine:
        over_v2 = await engine.post(
            Api.INFER, *asked({"name": "text", "datatype": "BYTES", "shape": [1], "data": element})
        )
        over_v1 = await engine.post(Api.CLASSIFY, {"input": text})
        assert (over_v2.status, over_v1.status) == (500, 500)
        assert (await engine.post(Api.CLASSIFY, {"input": "good"})).status == 200
    assert caplog.text.count("the model failed: ") == 2
    assert "declare" in caplog.text
    assert text not in caplog.text


async def test_no_number_in_the_answer_is_a_fault_over_each_api() -> None:
    """It was a 502 over /v1, and over /v2 a paid 200 with null; beside the first output it may be meant."""

    class Beside(Toy):
        def forward(self, batch: Features) -> Features:
            return {"scores": batch["x"], "beside": batch["x"] * float("nan")}

    beside = TensorSpec(name="beside", datatype=Datatype.FP32, shape=(-1, 2))
    nan = {**X, "data": struct.pack("<2f", 1, float("nan"))}
    async with running(Beside(model(replace(SETTINGS, outputs=(*SETTINGS.outputs, beside))))) as engine:
        over_v1 = await engine.post(Api.CLASSIFY, {"input": "nan"})
        over_v2 = await engine.post(Api.INFER, *asked(nan, outputs=[{"name": "scores"}]))
        meant = await engine.post(Api.INFER, *asked(X, outputs=[{"name": "beside"}]))
    assert (over_v1.status, over_v2.status, meant.status) == (500, 500, 200)
    assert all(math.isnan(value) for value in struct.unpack("<2f", told_by(meant)[1]))
