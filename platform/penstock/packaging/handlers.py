"""Reads ``handler.json`` of a model with a handler: read at the push, signed with the manifest.

Only the model's workers import the handler itself.
"""

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path

import msgspec

from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.model import EngineSettings, GoldenPrompt, HandlerSettings, Task
from penstock.domain.models.tensors import ANY, Datatype, TensorSpec
from penstock.formats.contents import HANDLER, LABELS
from penstock.formats.documents import json_of
from penstock.packaging import reading

DESCRIPTION = "handler.json"
HANDLED = (Task.CLASSIFY, Task.EMBED)


DTYPES = ("float32", "bfloat16", "float16", "float64")


class _Tensor(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    note: str = ""
    optional: bool = False

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec(name=self.name, datatype=self.datatype, shape=self.shape)


class _Golden(msgspec.Struct, forbid_unknown_fields=True):
    prompt: str
    expect: str = ""
    near: str = ""
    far: str = ""


class _Description(msgspec.Struct, forbid_unknown_fields=True):
    task: Task
    inputs: tuple[_Tensor, ...]
    outputs: tuple[_Tensor, ...]
    name: str = HANDLER
    max_batch: int = 16
    buckets: tuple[int, ...] = ()
    labels: str = ""
    item_tokens: int = 0
    dtype: str = "float32"
    max_tokens: int = 0
    golden: tuple[_Golden, ...] = ()


class Handled(msgspec.Struct, frozen=True):
    task: Task
    settings: HandlerSettings
    engine: EngineSettings
    golden: tuple[GoldenPrompt, ...]


def read(folder: Path) -> Handled | None:
    """Return the handler's settings, None without a handler; raises ``ArtifactRefused``."""
    path = folder / DESCRIPTION
    if not path.is_file():
        if (folder / HANDLER).is_file():
            raise ArtifactRefused(f"{HANDLER} needs a {DESCRIPTION} beside it, with task, inputs and outputs")
        return None
    try:
        said = msgspec.convert(json_of(path.read_bytes()), _Description)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ArtifactRefused(f"{DESCRIPTION}: {error}{_remedy(str(error))}") from error
    _check(said, folder)
    check_code(folder)
    tokens = said.max_tokens or said.item_tokens or reading.context_of(folder)
    return Handled(
        said.task,
        HandlerSettings(
            name=said.name,
            inputs=tuple(one.spec for one in said.inputs),
            outputs=tuple(one.spec for one in said.outputs),
            max_batch=said.max_batch,
            buckets=said.buckets,
            labels=said.labels,
            item_tokens=said.item_tokens,
            optional=tuple(one.name for one in said.inputs if one.optional),
            notes=tuple((one.name, one.note) for one in (*said.inputs, *said.outputs) if one.note),
        ),
        EngineSettings(
            max_model_len=tokens,
            max_num_seqs=2 * said.max_batch,
            max_num_batched_tokens=2 * said.max_batch * tokens,
            kv_cache_bytes=0,
            dtype=said.dtype,
        ),
        tuple(GoldenPrompt(prompt=one.prompt, expect=one.expect, near=one.near, far=one.far) for one in said.golden),
    )


def _remedy(error: str) -> str:
    path = error.rpartition("$")[2]
    if "enum value" in error:
        return f"; take one of {', '.join(Datatype if 'datatype' in path else HANDLED)}"
    if "unknown field" not in error:
        return ""
    kind = _Golden if "golden" in path else _Tensor if "puts" in path else _Description
    return f"; there are {', '.join(kind.__struct_fields__)}"


def _check(said: _Description, folder: Path) -> None:
    if said.task is Task.GENERATE:
        raise ArtifactRefused(f"{DESCRIPTION}: task must be classify or embed; what generates text runs on vLLM")
    if not said.inputs or not said.outputs:
        raise ArtifactRefused(f"{DESCRIPTION}: name at least one input and one output")
    _check_tensors(said)
    if said.dtype not in DTYPES:
        raise ArtifactRefused(f"{DESCRIPTION}: dtype must be one of {', '.join(DTYPES)}")
    _check_labels(said, folder)
    if said.max_batch < 1 or said.item_tokens < 0:
        raise ArtifactRefused(f"{DESCRIPTION}: max_batch must be above 0, and item_tokens not below")
    if not said.item_tokens and not (folder / "tokenizer.json").is_file():
        raise ArtifactRefused(
            f"{DESCRIPTION}: say item_tokens, what one item counts as in limits and price: without a tokenizer.json "
            "nothing can be counted"
        )


def _check_tensors(said: _Description) -> None:
    for tensor in (*said.inputs, *said.outputs):
        if tensor.shape[:1] != (ANY,):
            raise ArtifactRefused(f"{DESCRIPTION}: the shape of {tensor.name} must begin with -1, the items of a batch")
    for what, tensors in (("inputs", said.inputs), ("outputs", said.outputs)):
        if len({one.name for one in tensors}) != len(tensors):
            raise ArtifactRefused(f"{DESCRIPTION}: {what} names a tensor twice")


def _check_labels(said: _Description, folder: Path) -> None:
    if not said.labels:
        return
    if said.labels != LABELS:
        raise ArtifactRefused(f"{DESCRIPTION}: labels must be {LABELS}, the one file of labels that a version holds")
    if not (folder / LABELS).is_file():
        raise ArtifactRefused(f"{LABELS} is missing; {DESCRIPTION} names it")
    count, classes = len((folder / LABELS).read_bytes().splitlines()), said.outputs[0].shape[-1]
    if classes not in (ANY, count):
        raise ArtifactRefused(f"{LABELS} has {count} lines, and {said.outputs[0].name} {classes} values for each item")


def check_code(folder: Path) -> None:
    """Raise ``ArtifactRefused`` if the handler is not Python or imports files outside the version."""
    path = folder / HANDLER
    if not path.is_file():
        return
    for name in _imported(_parsed(path.read_bytes())):
        for beside in (f"{name}.py", f"{name}/__init__.py"):
            if (folder / beside).is_file():
                raise ArtifactRefused(
                    f"{HANDLER} imports {name}, which is {beside} of the folder: a version holds one file of code, "
                    f"so move into {HANDLER} what it needs"
                )


def _parsed(source: bytes) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(source, HANDLER)
            compile(module, HANDLER, "exec", dont_inherit=True)  # also finds what the grammar alone lets through
            return module
    except SyntaxError as error:
        at = f", line {error.lineno}" if error.lineno else ""
        raise ArtifactRefused(f"{HANDLER}{at} is not valid Python: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise ArtifactRefused(f"{HANDLER} is not valid Python: {error}") from error


def _imported(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            raise ArtifactRefused(f"{HANDLER}, line {node.lineno} imports what stands beside it: there is nothing else")
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
