"""Checks the values of a manifest that serving depends on: numbers, golden prompts, chat template. Pure.

A version is never changed, so a wrong value is refused at the push, naming its field.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NoReturn

from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.model import GoldenPrompt, HandlerSettings, Manifest, Task
from penstock.domain.models.tensors import ANY, MAX_RANK
from penstock.formats import abilities
from penstock.formats.chat_template import ChatTemplate, Message, TemplateRefused

MAX_RANKS = 8
"""GPUs of one worker: the most that one node has."""
MOST_TOKENS = 1 << 24
"""Tokens of a context, a step or an item: beyond any model's."""
MOST_ITEMS = 1 << 16
"""Items of one batch."""
MOST_OF_ALL = 1 << 50
"""Bytes of a file or cache, micro-dollars of a million tokens: exact in doubles, also in sums."""
MOST_GOLDEN_TOKENS = 256
"""Tokens of all golden prompts, which every worker answers before it is ready."""
DTYPES = frozenset({"auto", "half", "float16", "bfloat16", "float", "float32", "float64"})
"""vLLM 0.32's dtypes (``ModelDType``), and torch's double for handlers."""
KV_DTYPES = frozenset({"auto", "bfloat16", "fp8"})
"""Those of vLLM's that the memory plan knows."""
Range = tuple[float, float]
_ENGINE: dict[str, Range] = {
    "max_model_len": (1, MOST_TOKENS),
    "max_num_seqs": (1, MOST_ITEMS),
    "max_num_batched_tokens": (1, 1 << 30),
    "long_prefill_tokens": (0, MOST_TOKENS),
    "block_size": (1, 1 << 12),
    "kv_cache_bytes": (0, MOST_OF_ALL),
    "kv_offload_bytes": (0, MOST_OF_ALL),
    "tensor_parallel_size": (1, MAX_RANKS),
}
_SAMPLING: dict[str, Range] = {
    "temperature": (0, 2),
    "top_p": (1e-6, 1),
    "top_k": (-1, 1 << 20),
    "repetition_penalty": (1e-6, 100),
}
_PRICE = ("prompt_per_mtok", "cached_per_mtok", "output_per_mtok")
_HELLO = "Hi"


def check(manifest: Manifest) -> None:
    """Raises ``ArtifactRefused`` with the field and its remedy."""
    if not manifest.provenance.licence.strip():
        _refuse("provenance.licence", "is empty: name the weights' licence, for example Apache-2.0")
    _check_price(manifest)
    _check_ranges("engine", manifest.engine, _ENGINE)
    if manifest.engine.dtype not in DTYPES:
        _refuse("engine.dtype", f"must be one of {', '.join(sorted(DTYPES))}")
    if manifest.engine.kv_cache_dtype not in KV_DTYPES:
        _refuse("engine.kv_cache_dtype", f"must be one of {', '.join(sorted(KV_DTYPES))}")
    _check_ranges("sampling", manifest.sampling, _SAMPLING)
    if manifest.handler is not None:
        _check_handler(manifest.handler, manifest.task)
    check_golden(manifest.golden, manifest.task)
    _check_template(manifest)


def check_golden(prompts: Sequence[GoldenPrompt], task: Task) -> None:
    """Raise ``ArtifactRefused`` for a prompt that no model of this task could fail."""
    for at, one in enumerate(prompts):
        if not one.prompt:
            _refuse(f"golden[{at}].prompt", "asks nothing")
        if task is Task.EMBED and not (one.near and one.far):
            _refuse(
                f"golden[{at}]",
                "needs near and far for an embedding model: texts, the first of which must be closer to the prompt",
            )
        if task is not Task.EMBED and not one.expect:
            _refuse(f"golden[{at}].expect", "is empty: say what must be in the answer")
        _check_number(f"golden[{at}].max_tokens", one.max_tokens, (1, MOST_GOLDEN_TOKENS))


def _check_price(manifest: Manifest) -> None:
    for name in _PRICE:
        _check_number(f"price.{name}", getattr(manifest.price, name), (0, MOST_OF_ALL))
    if not manifest.price.prompt_per_mtok and not manifest.price.output_per_mtok:
        _refuse("price", "is 0: a version needs a price for its prompt or its output")


def _check_ranges(at: str, settings: object, ranges: dict[str, Range]) -> None:
    for name, allowed in ranges.items():
        value = getattr(settings, name)
        if value is not None:
            _check_number(f"{at}.{name}", value, allowed)


def _check_handler(handler: HandlerSettings, task: Task) -> None:
    if task is Task.GENERATE:
        _refuse("task", "is generate, which handlers can't do: leave the handler out, or choose classify or embed")
    _check_number("handler.max_batch", handler.max_batch, (1, MOST_ITEMS))
    _check_number("handler.item_tokens", handler.item_tokens, (0, MOST_TOKENS))
    for at, bucket in enumerate(handler.buckets):
        _check_number(f"handler.buckets[{at}]", bucket, (1, MOST_TOKENS))
    for side in ("inputs", "outputs"):
        tensors = getattr(handler, side)
        if not tensors:
            _refuse(f"handler.{side}", "is empty: name at least one tensor")
        if len({one.name for one in tensors}) != len(tensors):
            _refuse(f"handler.{side}", "names a tensor twice")
        for at, tensor in enumerate(tensors):
            _check_shape(f"handler.{side}[{at}].shape", tensor.shape)
    if unknown := sorted(set(handler.optional) - {one.name for one in handler.inputs}):
        _refuse("handler.optional", f"names {unknown[0]}, which is no input")


def _check_shape(at: str, shape: Sequence[int]) -> None:
    if (
        shape[:1] != (ANY,)
        or len(shape) > MAX_RANK
        or any(size != ANY and not 1 <= size <= MOST_TOKENS for size in shape)
    ):
        _refuse(
            at, f"must begin with -1, the items of a batch, and have at most {MAX_RANK} sizes above 0, or -1 if varying"
        )


def _check_template(manifest: Manifest) -> None:
    if not manifest.chat_template:
        return
    template = _compiled(manifest.chat_template)
    user: Message = {"role": "user", "content": template.content(_HELLO)}
    known: dict[str, object] = {"tools": None, "documents": None, "add_generation_prompt": True}
    try:
        template.render([user], known | dict(manifest.special_tokens))
    except TemplateRefused as error:
        cause = f": {error.__cause__}" if error.__cause__ is not None else ""
        _refuse("chat_template", f"can't render a single user message ({error}{cause}): mend it, or leave it out")
    found = set(map(str, abilities.of_template(template, manifest.special_tokens)))
    if untrue := sorted(set(manifest.renders or ()) - found):
        _refuse("renders", f"says {untrue[0]}, which the chat template does not show: leave it out")


def _compiled(source: str) -> ChatTemplate:
    try:
        return ChatTemplate(source, lambda: datetime.fromtimestamp(0, tz=UTC))
    except Exception as error:
        line = getattr(error, "lineno", None)
        where = f" in line {line}" if line else ""
        raise _refusal("chat_template", f"is no Jinja template{where}: {error}") from error


def _check_number(at: str, value: float, allowed: Range) -> None:
    low, high = allowed
    if not low <= value <= high:
        _refuse(at, f"is {value:g}, not from {low:g} to {high:g}")


def _refuse(at: str, says: str) -> NoReturn:
    raise _refusal(at, says)


def _refusal(at: str, says: str) -> ArtifactRefused:
    return ArtifactRefused(f"{at} {says}"[:_MOST_CHARS], param=f"manifest.{at}")


_MOST_CHARS = 500
"""Characters of an error message: a template's own message may be long."""
