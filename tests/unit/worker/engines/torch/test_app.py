"""The torch engine's answers: vectors, classes and tensors, and a clear word for what can't be answered."""

import asyncio
import base64
import struct
import threading
from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

import pytest
import torch

from penstock.domain.models.tensors import Datatype, TensorSpec
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.worker.engines.torch.handler import Features, Given, Handler, Model, Prepared
from penstock.worker.gate_config import TICKET
from penstock.worker.share import Share
from tests.support.engines.torch_handler import SETTINGS, Toy, asked, model, running, ticket, told_by
from tests.support.patience import until

TEXTS = ["one", "a b c", ""]


async def test_vectors_come_as_openai_writes_them() -> None:
    """Each input has its vector, in order, in numbers or as base64 of the same."""
    async with running() as engine:
        plain = await engine.post(Api.EMBEDDINGS, {"input": TEXTS[:2], "cache_salt": "x", "model": "m"})
        packed = await engine.post(Api.EMBEDDINGS, {"input": TEXTS[:2], "encoding_format": "base64"})
    assert [row["embedding"] for row in plain.json["data"]] == [[3.0, 0.0], [5.0, 2.0]]
    assert plain.json["usage"] == {"prompt_tokens": 8, "total_tokens": 8}
    decoded = [struct.unpack("<2f", base64.b64decode(row["embedding"])) for row in packed.json["data"]]
    assert decoded == [(3.0, 0.0), (5.0, 2.0)]


async def test_an_output_that_nothing_changes_waits_for_no_thread() -> None:
    """Each item of a handler without postprocessing is on a thread of the CPU tier once, with it twice."""

    class Telling(Toy):
        def postprocess(self, row: Features) -> Features:
            assert threading.current_thread() is not threading.main_thread()
            return row

    begun = []
    for handler in (Toy(model()), Telling(model())):
        async with running(handler) as engine:
            await engine.post(Api.CLASSIFY, {"input": TEXTS})
            begun.append(engine.threads.begun)
    assert begun == [3, 6]


async def test_what_is_quick_and_comes_alone_takes_no_thread() -> None:
    """Two switches of threads would cost more than to preprocess it; a list may be long, and what is not quick too."""

    class Quick(Toy):
        def is_quick(self, given: Given) -> bool:
            return given != "slow"

    async with running(Quick(model())) as engine:
        assert (await engine.post(Api.CLASSIFY, {"input": "one"})).status == 200
        assert (await engine.post(Api.CLASSIFY, {"input": "bad"})).status == 400
        assert engine.threads.begun == 0
        await engine.post(Api.CLASSIFY, {"input": ["one", "two"]})
        await engine.post(Api.CLASSIFY, {"input": "slow"})
        assert engine.threads.begun == 3


async def test_classes_come_with_labels_and_probabilities() -> None:
    """The label is that of the largest score; without labels it is the class's number."""
    async with running(labels=["long", "wide"]) as engine:
        answer = await engine.post(Api.CLASSIFY, {"input": "one"})
    async with running() as engine:
        bare = await engine.post(Api.CLASSIFY, {"input": "one"})
    assert answer.json["data"] == [{"index": 0, "label": "long", "probs": [3.0, 0.0], "num_classes": 2}]
    assert bare.json["data"][0]["label"] == "0"


class Echo(Handler):
    """Gives back what it gets, and notes which batches it was."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.batches: list[set[str]] = []

    def preprocess(self, given: Given) -> Prepared:
        if not isinstance(given, dict):
            raise TypeError(given)
        return Prepared(features=given, tokens=1)

    def forward(self, batch: Features) -> Features:
        self.batches.append({f"{name} {one.dtype}" for name, one in batch.items()})
        return batch

    def example(self) -> Given:
        return {"a": torch.zeros(2)}


async def test_tensors_of_two_kinds_never_share_a_batch() -> None:
    """The same shape under another name or in another datatype is another batch, and comes back as what it was."""
    kinds = [("a", Datatype.FP32), ("b", Datatype.FP32), ("c", Datatype.FP64)]
    specs = tuple(TensorSpec(name=name, datatype=datatype, shape=(-1, 2)) for name, datatype in kinds)
    handler = Echo(model(replace(SETTINGS, inputs=specs, outputs=specs)))
    sent = {
        name: {"name": name, "datatype": kind, "shape": [1, 2], "data": bytes(2 * kind.size_bytes)}
        for name, kind in kinds
    }
    async with running(handler) as engine:
        answers = await asyncio.gather(*(engine.post(Api.INFER, *asked(one)) for one in sent.values()))
    assert [told_by(one)[0]["datatype"] for one in answers] == [kind for _, kind in kinds]
    assert sorted(map(len, handler.batches)) == [1, 1, 1]


X = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": struct.pack("<2f", 1, 2)}
TEXT = {"name": "text", "shape": [2], "datatype": "BYTES", "data": b"\x03\0\0\0one\x03\0\0\0a b"}


async def test_tensors_come_and_go_as_bytes() -> None:
    """Rows of the tensors that came, behind a head that describes them."""
    async with running() as engine:
        answer = await engine.post(Api.INFER, *asked({**X, "shape": [2, 2], "data": struct.pack("<4f", 1, 2, 3, 4)}))
    output, data = told_by(answer)
    assert output == {"name": "scores", "datatype": "FP32", "shape": [2, 2], "parameters": {"binary_data_size": 16}}
    assert struct.unpack("<4f", data) == (1, 2, 3, 4)


async def test_bytes_are_an_item_each() -> None:
    """An element of a BYTES tensor is one item."""
    async with running() as engine:
        answer = await engine.post(Api.INFER, *asked(TEXT))
    assert struct.unpack("<4f", told_by(answer)[1]) == (3, 0, 3, 1)


@pytest.mark.parametrize(("labels", "says"), [(["a", "b"], "3.000000:0:a"), ([], "3.000000:0"), (["a"], "3.000000:0")])
async def test_classes_are_told_by_score_place_and_label(labels: list[str], says: str) -> None:
    """Who asks for classes of an output gets texts, with labels where there is one for each value."""
    wanted = [{"name": "scores", "parameters": {"classification": 1}}]
    async with running(labels=labels) as engine:
        answer = await engine.post(Api.INFER, *asked(TEXT, outputs=wanted))
    output, data = told_by(answer)
    assert (output["datatype"], output["shape"]) == ("BYTES", [2, 1])
    size = int.from_bytes(data[:4], "little")
    assert data[4 : 4 + size].decode() == says


async def test_an_output_that_the_model_left_out_is_its_fault() -> None:
    """Who asks for what the model describes and does not give hears of an error, and the engine goes on."""

    class Bare(Toy):
        def forward(self, batch: Features) -> Features:
            return {"other": batch["x"]}

    async with running(Bare(model())) as engine:
        for path, body in ((Api.INFER, asked(X, outputs=[{"name": "scores"}])), (Api.CLASSIFY, ({"input": "one"},))):
            answer = await engine.post(path, *body)
            assert (answer.status, answer.json["error"]["type"]) == (500, "InternalServerError")


WRONG: dict[str, tuple[str, object, str]] = {
    "nothing": (Api.EMBEDDINGS, {}, "input is required"),
    "empty": (Api.CLASSIFY, {"input": []}, "input is required"),
    "a number": (Api.CLASSIFY, {"input": 5}, "input must be a string"),
    "a mixture": (Api.CLASSIFY, {"input": ["a", 5]}, "input must be a string"),
    "no JSON": (Api.CLASSIFY, b"{", "not valid JSON"),
    "not UTF-8": (Api.CLASSIFY, b'{"input": "\xff"}', "not valid JSON"),
    "deep": (Api.CLASSIFY, b'{"a":' * 100_000, "not valid JSON"),
    "dimensions": (Api.EMBEDDINGS, {"input": "a", "dimensions": 5}, "leave dimensions out"),
    "a form": (Api.EMBEDDINGS, {"input": "a", "encoding_format": "hex"}, "float or base64"),
    "the handler's own": (Api.CLASSIFY, {"input": "bad"}, "text is bad"),
    "one of several": (Api.CLASSIFY, {"input": ["good", "bad"]}, "text is bad"),
    "a careless handler": (Api.CLASSIFY, {"input": "fault"}, "handler can't take"),
    "no inputs": (Api.INFER, asked(), "at least one"),
    "unknown input": (Api.INFER, asked({**X, "name": "y"}), "there is no input 'y'; there are text, x"),
    "unknown output": (Api.INFER, asked(X, outputs=[{"name": "z"}]), "there is no output 'z'"),
    "dtype": (Api.INFER, asked({**X, "datatype": "INT8", "data": b"12"}), "x must be FP32 [-1, 2], not INT8 [1, 2]"),
    "no dtype": (Api.INFER, asked({**X, "datatype": "FP8"}), "Invalid enum value"),
    "shape": (Api.INFER, asked({**X, "shape": [2, 1]}), "x must be FP32 [-1, 2]"),
    "too few": (Api.INFER, asked({**X, "data": b"1234"}), "of this shape has 8"),
    "10^18 items": (Api.INFER, asked({**X, "shape": [10**18, 2]}), "x has 8 bytes"),
    "below 0": (Api.INFER, asked({**X, "shape": [-1, 2]}), "below 0"),
    "no items": (Api.INFER, asked({**X, "shape": [0, 2], "data": b""}), "x is empty: its shape is [0, 2]"),
    "twice": (Api.INFER, asked(X, X), "given twice"),
    "unequal": (Api.INFER, asked(X, TEXT), "the same number of items"),
    "bytes beyond": (
        Api.INFER,
        asked({**X, "parameters": {"binary_data_size": 80}}),
        "the size of its data in the body",
    ),
    "no bytes": (Api.INFER, asked({**X, "parameters": {}}), "the size of its data in the body"),
    "more bytes": (Api.INFER, asked({**X, "parameters": {"binary_data_size": 8}, "data": bytes(9)}), "more bytes"),
}


@pytest.mark.parametrize(("path", "body", "says"), WRONG.values(), ids=WRONG.keys())
async def test_what_can_t_be_answered_is_a_400_that_says_why(path: str, body: object, says: str) -> None:
    """Bad input is the caller's to mend, and the engine goes on."""
    async with running() as engine:
        answer = await engine.post(path, *(body if isinstance(body, tuple) else (body,)))
        assert (answer.status, answer.json["error"]["code"]) == (400, 400)
        assert says in answer.json["error"]["message"]
        assert (await engine.post(Api.CLASSIFY, {"input": "good"})).status == 200


UNKNOWN: dict[str, object] = {
    "use_activation": False,
    "truncate_prompt_tokens": 3,
    "add_special_tokens": False,
    "normalize": False,
    "messages": [{"role": "user", "content": "a"}],
    "padding": "max_length",
    "embed_dtype": "float16",
    "endianness": "big",
    "mm_processor_kwargs": {"crop": 2},
}
KNOWN = {"use_activation": True, "add_special_tokens": True, "endianness": "little", "padding": "do_not_pad"}


@pytest.mark.parametrize(("name", "value"), UNKNOWN.items())
@pytest.mark.parametrize("path", [Api.CLASSIFY, Api.EMBEDDINGS])
async def test_a_field_that_would_change_the_answer_is_not_ignored(path: str, name: str, value: object) -> None:
    """A caller who asked for scores without softmax got them with it; what is done anyway may be asked for."""
    async with running() as engine:
        refused = await engine.post(path, {"input": "a", name: value})
        assert (refused.status, refused.json["error"]["param"]) == (400, name)
        assert name in refused.json["error"]["message"]
        assert engine.meters[-1].used.prompt_tokens == 0
        silent = await engine.post(path, {"input": "a", **KNOWN, **dict.fromkeys(UNKNOWN.keys() - KNOWN.keys())})
        assert silent.status == 200


@pytest.mark.parametrize("text", ["boom", "nan"])
async def test_an_input_that_breaks_the_model_fails_alone(text: str) -> None:
    """A model that raises, or gives no number, fails this request with a 500; its neighbours get their answers."""
    async with running() as engine:
        answer = await engine.post(Api.CLASSIFY, {"input": text})
        assert answer.status == 500
        assert text not in answer.json["error"]["message"]
        assert (await engine.post(Api.CLASSIFY, {"input": TEXTS})).status == 200


async def test_what_was_used_is_counted_for_each_item() -> None:
    """Prompts and tokens are the meter's, and so is each item's part of its batch's time."""
    async with running() as engine:
        await engine.post(Api.EMBEDDINGS, {"input": TEXTS})
        (meter,) = engine.meters
        used = meter.used
        assert (used.prompts, used.prompt_tokens, used.output_tokens, used.steps) == (3, 8, 0, 3)
        assert meter.running == 0
        batched = meter.batched
        assert batched is not None
        assert 1 <= batched.size <= 3
        assert batched.prepared_s is not None
        assert batched.computed_s is not None
        assert batched.computed_s > 0


@pytest.mark.parametrize(("counts", "told"), [(18, 6), (-5, 0), (6, 6), (2, 2)])
async def test_what_is_told_of_an_item_is_what_is_billed(
    counts: int, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler that counted beyond its ``item_tokens``, or below 0, was told so and billed otherwise."""

    class Counting(Toy):
        def preprocess(self, given: Given) -> Prepared:
            return replace(super().preprocess(given), tokens=counts)

    async with running(Counting(model(replace(SETTINGS, item_tokens=6)))) as engine:
        for _ in range(2):
            answer = await engine.post(Api.CLASSIFY, {"input": "one"})
            assert answer.json["usage"] == {"prompt_tokens": told, "total_tokens": told}
            assert engine.meters[-1].used.prompt_tokens == told
    assert sum("item_tokens" in line for line in caplog.messages) == (counts != told)


async def test_an_input_in_quarantine_costs_nothing() -> None:
    """Its refusal was billed like an answer; beside good items in a list, what was computed of them is what counts."""
    async with running() as engine:
        for text in ("good", "boom") * 3:
            await engine.post(Api.CLASSIFY, {"input": text})
        refused = await engine.post(Api.CLASSIFY, {"input": "boom"})
        used = engine.meters[-1].used
        assert (refused.status, "not tried again" in refused.json["error"]["message"]) == (400, True)
        assert (used.prompt_tokens, used.prompts) == (0, 0)
        assert (await engine.post(Api.CLASSIFY, {"input": ["boom", "good", "good"]})).status == 400
        computed, used = engine.numbers.tokens, engine.meters[-1].used
        assert used.prompt_tokens <= len("goodgood")
        assert computed == 3 * len("good") + used.prompt_tokens


class Held(Toy):
    """Computes nothing before it may."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.may = threading.Event()
        self.prepared = 0

    def preprocess(self, given: Given) -> Prepared:
        self.prepared += 1
        return super().preprocess(given)

    def forward(self, batch: Features) -> Features:
        self.may.wait()
        return super().forward(batch)


async def test_a_list_that_is_alone_fills_batches() -> None:
    """With nobody else about, a list's share of a few items made batches of a few items."""
    held = Held(model())
    async with running(held) as engine:
        texts = [str(i) for i in range(128)]
        asked_ = asyncio.create_task(engine.post(Api.EMBEDDINGS, {"input": texts}, share=Share(2)))
        try:
            await asyncio.to_thread(until, "two batches are ready", lambda: held.prepared >= 16, within_s=5)
            assert held.prepared == 16
        finally:
            held.may.set()
        answer = await asked_
    assert [row["embedding"][0] for row in answer.json["data"]] == [len(text) for text in texts]
    assert engine.numbers.items == 128


async def test_a_list_ends_with_its_first_error_and_starts_no_more() -> None:
    """What waits for room behind a bad item is left, and the engine goes on."""
    held = Held(model())
    held.may.set()
    async with running(held) as engine:
        answer = await engine.post(Api.EMBEDDINGS, {"input": ["bad"] + ["good"] * 500}, share=Share(2))
        assert answer.status == 400
        assert held.prepared < 400
        assert (await engine.post(Api.CLASSIFY, {"input": "good"})).status == 200


async def test_the_platform_asks_for_examples() -> None:
    """Probes and warm-up need no input: the handler has its own."""
    async with running() as engine:
        answer = await engine.post(Api.CLASSIFY, {"examples": 3})
    assert [row["probs"] for row in answer.json["data"]] == [[10.0, 1.0]] * 3


async def test_an_empty_dimension_is_a_400_that_names_the_tensor() -> None:
    """A size that varies may be anything but nothing: it was a fault of the engine."""
    ids = TensorSpec(name="ids", datatype=Datatype.INT64, shape=(-1, -1))
    async with running(Echo(model(replace(SETTINGS, inputs=(ids,), outputs=(ids,))))) as engine:
        for shape in ([2, 0], [0, 3], [0, 0]):
            empty = {"name": "ids", "shape": shape, "datatype": "INT64", "data": b""}
            answer = await engine.post(Api.INFER, *asked(empty))
            assert (answer.status, answer.json["error"]["param"]) == (400, "ids")
            assert "ids is empty" in answer.json["error"]["message"]


async def test_an_embedder_of_images_is_asked_for_examples() -> None:
    """The platform's warm-up sends token ids; a model that takes none gets its own examples, callers a refusal."""
    specs = (TensorSpec(name="a", datatype=Datatype.FP32, shape=(-1, 2)),)
    async with running(Echo(model(replace(SETTINGS, inputs=specs, outputs=specs, item_tokens=5)))) as engine:
        asked_ = {"input": [[1], [1, 2]]}
        own = await engine.post(Api.EMBEDDINGS, asked_, tenant=PLATFORM)
        assert [row["embedding"] for row in own.json["data"]] == [[0.0, 0.0]] * 2
        assert (await engine.post(Api.EMBEDDINGS, asked_)).status >= 400


async def test_there_is_nothing_at_other_paths() -> None:
    """What the engine doesn't serve is a 404."""
    async with running() as engine:
        assert (await engine.post(Api.CHAT, {})).status == 404


async def test_the_answer_goes_before_what_is_tidied_up_behind_it() -> None:
    """Whoever looks whether the client has left is sent home once the answer is out."""
    happened: list[str] = []
    waiting = [{"type": "http.request", "body": b'{"input": "one"}'}]

    async def receive() -> MutableMapping[str, Any]:
        if waiting:
            return waiting.pop()
        try:
            await asyncio.get_running_loop().create_future()
            raise AssertionError("nobody has an answer for it")
        finally:
            happened.append("sent home")

    async def send(message: MutableMapping[str, Any]) -> None:
        happened.append(message["type"])

    async with running() as engine:
        scope = {"type": "http", "method": "POST", "path": Api.CLASSIFY, "headers": [], TICKET: ticket("t")}
        await engine.app(scope, receive, send)
    assert happened == ["http.response.start", "http.response.body", "sent home"]
