"""Each value of a manifest that no version could be served with is refused at the push, by field and with a remedy."""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_args

import pytest

from penstock.control.registry import rules
from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.model import (
    EngineSettings,
    GoldenPrompt,
    HandlerSettings,
    Manifest,
    SamplingDefaults,
    Task,
    digest_of,
)
from penstock.domain.models.tensors import Datatype, TensorSpec
from penstock.formats import manifests
from penstock.packaging.demo_models import SMOLLM2_TEMPLATE
from tests.support.samples import control_plane as things

ROWS = TensorSpec(name="x", datatype=Datatype.FP32, shape=(-1, 4))
HANDLED = replace(
    things.manifest(),
    task=Task.CLASSIFY,
    handler=HandlerSettings(name="handler.py", inputs=(ROWS,), outputs=(ROWS,), buckets=(16,), item_tokens=4),
    golden=(GoldenPrompt(prompt="a", expect="b"),),
)
SAMPLED = SamplingDefaults(temperature=1.0, top_p=1.0, top_k=1, repetition_penalty=1.0)
BASE = replace(
    things.manifest(),
    engine=EngineSettings(adapter_slots=2, adapter_rank=8),
    sampling=SAMPLED,
)
BEYOND = 2**52


def numbers(value: object, at: str = "") -> Iterator[tuple[str, float]]:
    """Yield each number in a manifest, with its path."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield at, value
    elif isinstance(value, tuple):
        for number, one in enumerate(value):
            yield from numbers(one, f"{at}[{number}]")
    elif is_dataclass(value):
        for field in fields(value):
            yield from numbers(getattr(value, field.name), f"{at}.{field.name}".lstrip("."))


def changed(value: Any, path: str, to: float) -> Any:  # noqa: ANN401  any part of a manifest
    """Return a part of a manifest with another number at this path."""
    if not path:
        return to
    step, _, rest = path.replace("[", ".[").lstrip(".").partition(".")
    if step.startswith("["):
        at = int(step[1:-1])
        return (*value[:at], changed(value[at], rest, to), *value[at + 1 :])
    return replace(value, **{step: changed(getattr(value, step), rest, to)})


def refusal(manifest: Manifest) -> ArtifactRefused:
    with pytest.raises(ArtifactRefused) as caught:
        rules.version_of(manifest, f"signatures/{digest_of(manifest)}", 0.0)
    return caught.value


WALKED = [
    (kind, path)
    for kind, manifest in (("handled", HANDLED), ("base", BASE))
    for path, _ in numbers(manifest)
    if kind == "base" or ".adapter_" not in path
]
"""A handler has no adapters: their numbers stay 0 there."""


@pytest.mark.parametrize(("kind", "path"), WALKED)
@pytest.mark.parametrize("to", [-2, -BEYOND, BEYOND])
def test_each_number_has_a_range(kind: str, path: str, to: int) -> None:
    """A number far below or above any sense is refused by name: a field without a range fails here."""
    error = refusal(changed(HANDLED if kind == "handled" else BASE, path, to))
    whole = re.sub(r"(\.shape)\[\d+\]|\.size_bytes$", r"\1", path)
    assert error.param == f"manifest.{whole}"
    assert len(error.message) < 300


def test_the_walk_reaches_each_numeric_field() -> None:
    """What the walked manifests leave empty would not be tried."""
    walked = {path.rpartition(".")[2].partition("[")[0] for _, path in WALKED}
    kinds = (EngineSettings, SamplingDefaults, HandlerSettings, GoldenPrompt)
    numeric = {one.name for kind in kinds for one in fields(kind) if {int, float} & {one.type, *get_args(one.type)}}
    assert numeric - walked == set()


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{% for", "is no Jinja template in line 1"),
        ("\n\n{% if messages %}", "is no Jinja template in line 3"),
        ("{{ messages | nothing }}", "is no Jinja template"),
        ("{{ nothing() }}", "can't render a single user message"),
        ("{{ raise_exception('no users here') }}", "no users here"),
        ("{{ '" + "x" * 100_000 + "' | nothing }}", "is no Jinja template"),
    ],
    ids=range(6),
)
def test_a_broken_chat_template_is_refused(template: str, says: str) -> None:
    """Its fault, line and remedy are told, and the words do not grow with it."""
    error = refusal(replace(things.manifest(), chat_template=template))
    assert error.param == "manifest.chat_template"
    assert says in error.message
    assert len(error.message) <= 500


def test_an_ability_is_no_flag() -> None:
    """What a pusher says of its template is held to what rendering shows; the truth passes."""
    source = (SMOLLM2_TEMPLATE / "chat_template.jinja").read_text()
    special = (("bos_token", "<|im_start|>"), ("eos_token", "<|im_end|>"))
    plain = replace(things.manifest(), chat_template=source, special_tokens=special)
    manifests.check(replace(plain, renders=("system", "tools")))
    error = refusal(replace(plain, renders=("system", "documents")))
    assert error.param == "manifest.renders"
    assert "documents" in error.message


@pytest.mark.parametrize(
    ("bad", "param"),
    [
        (replace(HANDLED, task=Task.GENERATE), "task"),
        (replace(HANDLED, engine=EngineSettings(dtype="int4")), "engine.dtype"),
        (changed(HANDLED, "handler", 0), ""),
        (replace(HANDLED, golden=(GoldenPrompt(prompt="a"),)), "golden[0].expect"),
    ],
)
def test_words_out_of_their_set_are_refused(bad: Manifest, param: str) -> None:
    """Tasks, types and golden prompts that nothing could serve."""
    if not param:
        assert isinstance(HANDLED.handler, HandlerSettings)
        for handler, field in (
            (replace(HANDLED.handler, inputs=()), "handler.inputs"),
            (replace(HANDLED.handler, outputs=(ROWS, ROWS)), "handler.outputs"),
            (replace(HANDLED.handler, optional=("y",)), "handler.optional"),
            (replace(HANDLED.handler, inputs=(replace(ROWS, shape=(4,)),)), "handler.inputs[0].shape"),
        ):
            assert refusal(replace(HANDLED, handler=handler)).param == f"manifest.{field}"
        return
    assert refusal(bad).param == f"manifest.{param}"


def test_a_sound_manifest_passes() -> None:
    """Neither of the walked ones has another fault."""
    for manifest in (HANDLED, things.manifest(), BASE):
        rules.version_of(manifest, f"signatures/{digest_of(manifest)}", 0.0)
