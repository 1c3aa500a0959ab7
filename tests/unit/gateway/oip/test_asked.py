"""What callers ask beside their tensors: a deadline, classes, an account; and which tensors make a request."""

import asyncio
import json
import math
import struct
from dataclasses import replace

import pytest

from penstock.domain.errors import InvalidField
from penstock.domain.models.model import HandlerSettings, Task
from penstock.domain.models.tensors import Datatype, TensorSpec, checked, joined
from penstock.domain.serving.report import Used
from penstock.domain.serving.request import PackedTensors
from penstock.gateway.calls.call import Call
from penstock.gateway.calls.relay import Reply
from penstock.gateway.oip import forms
from penstock.gateway.oip.asked import packed
from penstock.gateway.oip.forms import body_of
from penstock.gateway.oip.handled import form_of
from penstock.gateway.oip.nouns import InferRequest, Wanted, spec
from tests.support.gateways.oip import HANDLER, answer
from tests.support.gateways.oip_rest import PIXELS, TEXT, get, post


@pytest.mark.parametrize(
    ("parameters", "headers", "seconds"),
    [
        ({"timeout": 250_000}, {}, 0.25),
        ({"timeout": 250_000}, {"x-penstock-deadline-ms": "100"}, 0.1),
        ({"timeout": 50_000, "priority": 0}, {"x-penstock-deadline-ms": "100"}, 0.05),
        ({"timeout": 0}, {}, 0.0),
        ({"triton_enable_empty_final_response": True}, {"x-penstock-deadline-ms": "100"}, 0.1),
    ],
)
async def test_the_timeout_of_a_request_is_its_deadline(
    parameters: dict[str, object], headers: dict[str, str], seconds: float
) -> None:
    """Triton's microseconds bound a request as the header does, and the shorter of both counts."""
    for body, model in (({"inputs": [TEXT]}, "writer"), ({"inputs": [PIXELS]}, "labels")):
        _, toy = await post({**body, "parameters": parameters}, model, headers)
        assert toy.seen.calls[0].request.deadline_s == seconds


def scored(**parameters: object) -> list[dict[str, object]]:
    """Return the scores as a wanted output."""
    return [{"name": "scores", "parameters": parameters}]


async def test_classes_are_asked_of_the_worker() -> None:
    """How many are wanted goes with the tensors, and is a part of what an idempotency key stands for."""
    _, toy = await post({"inputs": [PIXELS], "outputs": scored(classification=2, binary_data=True)}, "labels")
    tensors = toy.seen.calls[0].request.tensors
    assert tensors is not None
    head = json.loads(tensors.data[: tensors.head_bytes])
    assert head["outputs"] == [{"name": "scores", "parameters": {"classification": 2}}]


async def test_more_classes_than_anybody_writes_are_a_400() -> None:
    """Items times classes are bounded, by the classes that there are."""
    many = {**PIXELS, "shape": [2048, 2, 2], "data": [0] * 8192}
    response, _ = await post({"inputs": [many], "outputs": scored(classification=1000)}, "labels")
    assert response.status_code == 200
    wide = replace(HANDLER, outputs=(replace(HANDLER.outputs[0], shape=(-1, 1000)),))
    request = InferRequest(
        inputs=(checked(spec("pixels", Datatype.UINT8, 9, 2, 2), memoryview(bytes(36))),),
        outputs=(Wanted(name="scores", classes=1000),),
    )
    with pytest.raises(InvalidField, match="ask for fewer"):
        body_of(form_of(wide), request, "m")


TWO = replace(
    HANDLER,
    inputs=(*HANDLER.inputs, TensorSpec(name="mask", datatype=Datatype.BOOL, shape=(-1,))),
    optional=(),
)


@pytest.mark.parametrize(
    ("handler", "names", "says"),
    [
        (TWO, ["pixels"], "the input mask is missing: this model takes image or pixels with mask"),
        (TWO, ["mask"], "the input pixels is missing"),
        (replace(TWO, optional=("mask",)), ["mask"], r"takes image or pixels with \[mask\]"),
        (TWO, ["image", "pixels", "mask"], "image is given alone"),
    ],
)
def test_a_missing_input_is_named_with_those_that_make_a_request(
    handler: HandlerSettings, names: list[str], says: str
) -> None:
    """A declared input that is neither optional nor an alternative is asked for before anything waits for a device."""
    given = {
        "pixels": checked(spec("pixels", Datatype.UINT8, 1, 2, 2), memoryview(bytes(4))),
        "mask": checked(spec("mask", Datatype.BOOL, 1), memoryview(bytes(1))),
        "image": checked(spec("image", Datatype.BYTES, 1), memoryview(joined([b"x"]))),
    }
    with pytest.raises(InvalidField, match=says):
        body_of(form_of(handler), InferRequest(inputs=tuple(given[name] for name in names)), "m")


@pytest.mark.parametrize("names", [["image"], ["pixels"], ["pixels", "mask"]])
def test_what_makes_a_request_is_taken(names: list[str]) -> None:
    """One of BYTES alone, or the tensors without what is optional."""
    given = {
        "pixels": checked(spec("pixels", Datatype.UINT8, 1, 2, 2), memoryview(bytes(4))),
        "mask": checked(spec("mask", Datatype.BOOL, 1), memoryview(bytes(1))),
        "image": checked(spec("image", Datatype.BYTES, 1), memoryview(joined([b"x"]))),
    }
    request = InferRequest(inputs=tuple(given[name] for name in names))
    assert body_of(form_of(replace(TWO, optional=("mask",))), request, "m") == {"model": "m"}


async def test_metadata_tell_which_inputs_make_a_request_and_what_they_hold() -> None:
    """Alternatives are told in words, and a note stands at its tensor."""
    told = (await get("/v2/models/labels")).json()
    assert told["parameters"] == {"inputs": "image or pixels"}
    assert told["inputs"][0]["parameters"] == {"note": "planes from 0 to 255"}
    assert "parameters" not in told["inputs"][1]


async def test_an_answer_of_tensors_tells_what_was_used() -> None:
    """Items and tokens as they are billed stand beside the tensors, and what nobody counted is left out."""

    async def counting(call: Call, reply: Reply) -> None:
        call.attempts.used = Used(prompt_tokens=14, prompts=2, sequences=2)
        await answer(call, reply)

    response, _ = await post({"inputs": [PIXELS]}, "labels", serve=counting)
    told = response.json()["parameters"]
    assert (told["prompt_tokens"], told["output_tokens"], told["items"]) == (14, 0, 2)
    assert "edge" in json.loads(told["stages_ms"])
    response, _ = await post({"inputs": [PIXELS]}, "labels")
    assert set(response.json()["parameters"]) == {"stages_ms"}


@pytest.mark.parametrize(("items", "turns"), [(1, 0), (1 << 19, 1)])
async def test_others_have_their_turn_before_large_tensors_are_copied(items: int, turns: int) -> None:
    """The wire has copied them when they are here: the way to the worker begins in a turn of its own."""
    taken: list[int] = []

    def pack(asked: InferRequest) -> PackedTensors:
        taken.append(seen)
        return PackedTensors(head_bytes=0, data=b"", items=len(asked.inputs))

    seen = 0
    pixels = checked(spec("pixels", Datatype.UINT8, items, 2, 2), memoryview(bytes(4 * items)))
    form = replace(form_of(HANDLER), pack=pack)
    working = packed(form, InferRequest(inputs=(pixels,)), {"model": "m"}, is_repeatable=False)
    task = asyncio.ensure_future(working)
    while not task.done():
        await asyncio.sleep(0)
        seen += 1
    assert taken == [turns]


PROMPT = checked(spec("text_input", Datatype.BYTES, 1), memoryview(joined([b"hi"])))


@pytest.mark.parametrize("name", sorted(forms._NUMBERS))
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "NaN", "Infinity", "1e999"])
def test_no_number_is_no_silence(name: str, value: float | str) -> None:
    """Finding 11: NaN and infinity were as if not given, as a parameter, a text, an input, or one of the sampling's."""
    asked = [InferRequest(inputs=(PROMPT,), parameters={name: value})]
    if isinstance(value, float):
        tensor = checked(spec(name, Datatype.FP64, 1), memoryview(struct.pack("<d", value)))
        asked.append(InferRequest(inputs=(PROMPT, tensor)))
    else:
        asked.append(InferRequest(inputs=(PROMPT,), parameters={"sampling_parameters": json.dumps({name: value})}))
    for request in asked:
        with pytest.raises(InvalidField) as caught:
            body_of(forms.FORMS[Task.GENERATE], request, "m")
        assert caught.value.param == name


@pytest.mark.parametrize(("value", "taken"), [(True, True), ("true", True), (0, False), ("yes", None), (2, None)])
def test_a_flag_is_true_or_false(value: int | str, taken: bool | None) -> None:
    """Finding 11: ``ignore_eos="yes"`` passed."""
    request = InferRequest(inputs=(PROMPT,), parameters={"ignore_eos": value})
    if taken is None:
        with pytest.raises(InvalidField, match="true or false"):
            body_of(forms.FORMS[Task.GENERATE], request, "m")
    else:
        assert body_of(forms.FORMS[Task.GENERATE], request, "m")["ignore_eos"] is taken
