"""Inputs and outputs of each kind of model, and the translation to the model's own API. Pure.

A model that generates text has ``text_input`` and ``text_output``, as in Triton's language model back ends; an
embedding model returns ``embedding``. Several texts are one batch: one request, several prompts.
"""

from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import pack

import msgspec

from penstock.domain.errors import EngineError, InvalidField
from penstock.domain.models.model import Task
from penstock.domain.models.tensors import ANY, Datatype, Tensor, TensorSpec, checked, joined
from penstock.domain.serving.request import Api, PackedTensors
from penstock.gateway.answers.account import RawUsage
from penstock.gateway.answers.content import Choices
from penstock.gateway.oip.nouns import InferAnswer, InferRequest, Parameter, check_batch, check_outputs, spec
from penstock.gateway.oip.scalars import flag_of, number_of, object_of, of_model, options, texts_of

Body = dict[str, object]
TEXT, ANSWER, REASON, VECTOR = "text_input", "text_output", "finish_reason", "embedding"
STREAM, SAMPLING, IGNORE_EOS = "stream", "sampling_parameters", "ignore_eos"
_NUMBERS = frozenset(
    """
    max_tokens min_tokens temperature top_p top_k min_p seed presence_penalty frequency_penalty repetition_penalty
    """.split()
)
_TAKEN = _NUMBERS | {"stop", IGNORE_EOS, STREAM, SAMPLING, "exclude_input_in_output"}
_FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    api: Api
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    body: Callable[[InferRequest], Body]
    """Returns the body of the API's request, without the model, or raises ``InvalidField``."""
    answer: Callable[[InferRequest, bytes], InferAnswer]
    """Returns the answer translated from the API's, or raises ``EngineError``."""
    pack: Callable[[InferRequest], PackedTensors] | None = None
    """Returns the tensors as sent to a worker that takes them directly."""


class _Vector(msgspec.Struct, gc=False):
    embedding: str | list[float]
    index: int = 0


class _Own(msgspec.Struct, gc=False):
    stages_ms: msgspec.Raw = msgspec.Raw(b"{}")
    degraded: list[str] = []


class Completion(Choices, gc=False):
    usage: RawUsage | None = None
    penstock: _Own | None = None


class _Embeddings(msgspec.Struct, gc=False):
    data: list[_Vector]
    usage: RawUsage | None = None
    penstock: _Own | None = None


_COMPLETION = msgspec.json.Decoder(Completion)
_EMBEDDINGS = msgspec.json.Decoder(_Embeddings)
_ENCODER = msgspec.json.Encoder()


# -- models that write -----------------------------------------------------------------------------


def _asked_completion(request: InferRequest) -> Body:
    prompts = _prompts(request)
    others = [tensor for tensor in request.inputs if tensor.spec.name != TEXT]
    asked = options(of_model(request.parameters), others, _TAKEN, TEXT)
    if (sampling := asked.pop(SAMPLING, None)) is not None:
        asked = options(object_of(sampling, SAMPLING), (), _TAKEN - {SAMPLING}) | asked
    if asked.pop("exclude_input_in_output", True) not in (True, 1):
        raise InvalidField(
            "the answer never includes the prompt: leave this out or true", param="exclude_input_in_output"
        )
    for name in asked.keys() & _NUMBERS:
        asked[name] = number_of(asked[name], name)
    if IGNORE_EOS in asked:
        asked[IGNORE_EOS] = flag_of(asked[IGNORE_EOS], IGNORE_EOS)
    return {"prompt": prompts[0] if len(prompts) == 1 else prompts, **asked}


def _prompts(request: InferRequest) -> list[str]:
    """Return a batch's texts; raises ``InvalidField``."""
    given = request.input(TEXT)
    if given is None:
        raise InvalidField(f"the input {TEXT} is missing", param=TEXT)
    check_batch(given)
    return texts_of(given)


def _told_completion(request: InferRequest, raw: bytes) -> InferAnswer:
    said = completion(raw)
    choices = sorted(said.choices, key=lambda choice: choice.index)
    if not choices:
        raise EngineError
    texts = [(choice.text or "").encode() for choice in choices]
    reasons = [(choice.finish_reason or "").encode() for choice in choices]
    shape = _shape(request, len(choices))
    outputs = (_bytes(ANSWER, shape, texts), _bytes(REASON, shape, reasons))
    return InferAnswer(
        outputs=tuple(one for one in outputs if request.wants(one.spec.name)),
        parameters=told(said.usage, said.penstock),
    )


def completion(raw: bytes) -> Completion:
    try:
        return _COMPLETION.decode(raw)
    except msgspec.MsgspecError as error:
        raise EngineError from error


def own(raw: bytes) -> _Own:
    return msgspec.json.decode(raw, type=_Own)


def piece(text: str, reason: str = "") -> tuple[Tensor, ...]:
    outputs = (_bytes(ANSWER, (1,), [text.encode()]),)
    return (*outputs, _bytes(REASON, (1,), [reason.encode()])) if reason else outputs


def told(usage: RawUsage | None, own: _Own | None) -> Mapping[str, Parameter]:
    """Return an answer's parameters, which accompany its tensors."""
    said: dict[str, Parameter] = {}
    if usage is not None:
        said = {"prompt_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens or 0}
    if own is not None:
        said["stages_ms"] = bytes(own.stages_ms).decode()
        if own.degraded:
            said["degraded"] = ",".join(own.degraded)
    return said


# -- models that embed -----------------------------------------------------------------------------


def _asked_vectors(request: InferRequest) -> Body:
    texts = _prompts(request)
    others = [tensor for tensor in request.inputs if tensor.spec.name != TEXT]
    asked = options(of_model(request.parameters), others, _OF_VECTORS, TEXT)
    return {"input": texts, "encoding_format": "base64", **asked}


_OF_VECTORS = frozenset({"dimensions", "truncate_prompt_tokens"})


def _told_vectors(_: InferRequest, raw: bytes) -> InferAnswer:
    try:
        said = _EMBEDDINGS.decode(raw)
        rows = [_row(one.embedding) for one in sorted(said.data, key=lambda one: one.index)]
    except (msgspec.MsgspecError, ValueError) as error:
        raise EngineError from error
    data = b"".join(rows)
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise EngineError
    vectors = checked(spec(VECTOR, Datatype.FP32, len(rows), len(rows[0]) // _FLOAT_BYTES), memoryview(data))
    return InferAnswer(outputs=(vectors,), parameters=told(said.usage, said.penstock))


def _row(vector: str | list[float]) -> bytes:
    return b64decode(vector) if isinstance(vector, str) else pack(f"<{len(vector)}f", *vector)


# -- both ------------------------------------------------------------------------------------------


def _shape(request: InferRequest, items: int) -> tuple[int, ...]:
    """Return the shape of one element per item, with the input's number of dimensions."""
    given = request.input(TEXT)
    return (items, 1) if given is not None and len(given.spec.shape) > 1 else (items,)


def _bytes(name: str, shape: tuple[int, ...], elements: list[bytes]) -> Tensor:
    return Tensor(spec=spec(name, Datatype.BYTES, *shape), data=memoryview(joined(elements)))


_WRITING = Form(
    api=Api.COMPLETIONS,
    inputs=(spec(TEXT, Datatype.BYTES, ANY),),
    outputs=(spec(ANSWER, Datatype.BYTES, ANY), spec(REASON, Datatype.BYTES, ANY)),
    body=_asked_completion,
    answer=_told_completion,
)
_EMBEDDING = Form(
    api=Api.EMBEDDINGS,
    inputs=(spec(TEXT, Datatype.BYTES, ANY),),
    outputs=(spec(VECTOR, Datatype.FP32, ANY, ANY),),
    body=_asked_vectors,
    answer=_told_vectors,
)
FORMS: Mapping[Task, Form] = {Task.GENERATE: _WRITING, Task.EMBED: _EMBEDDING}


def body_of(form: Form, request: InferRequest, model: str) -> Body:
    check_outputs(request, form.outputs, has_classes=form.pack is not None)
    return {"model": model, **form.body(request)}
