"""JSON bodies of the torch engine: requests, and answers in OpenAI's and vLLM's formats. Pure."""

import base64
from array import array
from collections.abc import Callable, Sequence
from typing import cast

import msgspec

from penstock.domain.errors import EngineError, InvalidField, MalformedBody
from penstock.domain.models.model import HandlerSettings
from penstock.worker.engines.torch.handler import Features, Given

MOST_EXAMPLES = 64
_AS_DONE: dict[str, tuple[object, ...]] = {
    "add_special_tokens": (True,),
    "embed_dtype": ("float32",),
    "endianness": ("native", "little"),
    "messages": (),
    "mm_processor_kwargs": (),
    "normalize": (),
    "padding": ("do_not_pad",),
    "truncate_prompt_tokens": (),
    "use_activation": (True,),
}
"""vLLM's fields that would change the answer, each with the values that equal a handler's behaviour."""


class Body(msgspec.Struct, frozen=True):
    input: str | list[str | int | list[int]] | None = None
    encoding_format: str = "float"
    dimensions: int | None = None
    examples: int = 0
    add_special_tokens: object = None
    embed_dtype: object = None
    endianness: object = None
    messages: object = None
    mm_processor_kwargs: object = None
    normalize: object = None
    padding: object = None
    truncate_prompt_tokens: object = None
    use_activation: object = None

    @property
    def is_example(self) -> bool:
        """A platform probe is answered with the handler's own inputs."""
        return self.input is None and 0 < self.examples <= MOST_EXAMPLES


def read(raw: bytes) -> Body:
    try:
        body = msgspec.json.decode(raw, type=Body)
    except msgspec.ValidationError as error:
        raise _wrong_input() from error
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise MalformedBody from error
    for name, as_done in _AS_DONE.items():
        value = getattr(body, name)
        if value is not None and value not in as_done:
            raise InvalidField(f"this model's handler does not know {name}: leave it out", param=name)
    return body


def items(body: Body) -> Sequence[Given]:
    if not body.input:
        raise InvalidField("input is required and must not be empty", param="input")
    if isinstance(body.input, str):
        return [body.input]
    kinds = {type(one) for one in body.input}
    if len(kinds) > 1:
        raise _wrong_input()
    return [cast("Given", body.input)] if kinds == {int} else cast("Sequence[Given]", body.input)


def _wrong_input() -> InvalidField:
    return InvalidField("input must be a string, a list of strings, or lists of token ids", param="input")


def form_of(body: Body) -> Callable[[list[float]], object]:
    """Encodes a vector as the body asks; raises ``InvalidField``."""
    if body.dimensions is not None:
        raise InvalidField("this model's embeddings have a fixed length: leave dimensions out", param="dimensions")
    if body.encoding_format == "base64":
        return _base64
    if body.encoding_format != "float":
        raise InvalidField("encoding_format must be float or base64", param="encoding_format")
    return list


def numbers(row: Features, settings: HandlerSettings) -> list[float]:
    """The first declared output; raises ``EngineError`` if it is missing or JSON can't encode it."""
    told = row.get(settings.outputs[0].name)
    values: list[float] = [] if told is None else told.float().flatten().tolist()
    if not values or any(value - value != 0.0 for value in values):  # NaN and infinities
        raise EngineError("the model's result for this input is not a finite number")
    return values


def embeddings(version: str, vectors: Sequence[object], tokens: int) -> bytes:
    data = [{"object": "embedding", "index": i, "embedding": one} for i, one in enumerate(vectors)]
    return _listed(version, data, tokens)


def classes(version: str, scores: Sequence[list[float]], labels: Sequence[str], tokens: int) -> bytes:
    """``/v1/classify``: a class without a label is named by its number."""
    data: list[object] = []
    for i, probs in enumerate(scores):
        best = max(range(len(probs)), key=probs.__getitem__)
        label = labels[best] if labels else str(best)
        data.append({"index": i, "label": label, "probs": probs, "num_classes": len(probs)})
    return _listed(version, data, tokens)


def _listed(version: str, data: Sequence[object], tokens: int) -> bytes:
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return msgspec.json.encode({"object": "list", "model": version, "data": data, "usage": usage})


def _base64(values: list[float]) -> str:
    return base64.b64encode(array("f", values).tobytes()).decode()
