"""Models with a handler: what their folder says becomes part of the signed manifest, or is refused in words."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from penstock.apps.models import push
from penstock.domain.command_error import CommandError
from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.model import Runtime, Task, Tier
from penstock.domain.models.tensors import Datatype
from penstock.packaging import demo, handlers
from penstock.settings import Settings
from penstock.worker.engines.pickled import NotWeights, compare, tensors_of
from tests.support.models.versions import CHOICES, weights

DESCRIPTION: dict[str, Any] = {
    "task": "classify",
    "inputs": [{"name": "text", "datatype": "BYTES", "shape": [-1]}],
    "outputs": [{"name": "scores", "datatype": "FP32", "shape": [-1, 3]}],
    "max_batch": 32,
    "labels": "labels.txt",
    "item_tokens": 10,
}


def silent(_: str) -> None:
    """Say nothing."""


def folder_of(path: Path, **changes: object) -> Path:
    """Return a folder with a handler, its description and its labels."""
    path.mkdir()
    said = {name: value for name, value in {**DESCRIPTION, **changes}.items() if value is not None}
    (path / "handler.json").write_text(json.dumps(said))
    (path / "handler.py").write_text("raise SystemExit('nobody imports this at registration')\n")
    (path / "labels.txt").write_text("a\nb\nc\n")
    (path / "model.safetensors").write_bytes(weights())
    (path / "notes.txt").write_text("mine")
    return path


async def test_a_folder_with_a_handler_is_a_version_for_torch(tmp_path: Path) -> None:
    """Handler, labels and weights are signed; the description is in the manifest, and the handler was not run."""
    settings = Settings(home=tmp_path / "home")
    manifest = (await push(settings, folder_of(tmp_path / "model"), CHOICES, silent)).manifest
    assert {file.path for file in manifest.files} == {"handler.py", "labels.txt", "model.safetensors"}
    assert (manifest.runtime, manifest.task, manifest.tier) == (Runtime.TORCH, Task.CLASSIFY, Tier.CLASSIC)
    assert manifest.handler is not None
    assert manifest.handler.inputs[0].datatype is Datatype.BYTES
    assert (manifest.engine.max_num_seqs, manifest.engine.dtype) == (64, "float32")


WRONG: dict[str, tuple[dict[str, object], str]] = {
    "generates": ({"task": "generate"}, "task must be classify or embed"),
    "no outputs": ({"outputs": []}, "at least one input and one output"),
    "a datatype": (
        {"inputs": [{"name": "x", "datatype": "FP8", "shape": [-1]}]},
        r"Invalid enum value 'FP8' .*inputs\[0\]\.datatype.*; take one of BOOL, .*, BYTES",
    ),
    "a task": ({"task": "label"}, r"Invalid enum value 'label' .*\$\.task`; take one of classify, embed"),
    "a field": ({"batch": 3}, "unknown field `batch`; there are task, inputs, outputs, name, max_batch"),
    "a tensor's field": (
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1], "dtype": "f"}]},
        r"unknown field `dtype` .*; there are name, datatype, shape, note, optional",
    ),
    "a golden prompt's field": ({"golden": [{"prompt": "a", "expected": "b"}]}, "there are prompt, expect, near, far"),
    "a shape without a batch": (
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [3, 4]}]},
        "the shape of x must begin with -1",
    ),
    "two of a name": (
        {"outputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}] * 2},
        "outputs names a tensor twice",
    ),
    "a dtype": ({"dtype": "float33"}, "dtype must be one of float32, bfloat16"),
    "too few labels": (
        {"outputs": [{"name": "scores", "datatype": "FP32", "shape": [-1, 4]}]},
        r"labels\.txt has 3 lines, and scores 4 values",
    ),
    "no size": ({"item_tokens": None}, "say item_tokens"),
    "no batch": ({"max_batch": 0}, "max_batch must be above 0"),
    "labels that are not there": ({"labels": "other.txt"}, r"labels must be labels\.txt"),
}


@pytest.mark.parametrize(("changes", "says"), WRONG.values(), ids=WRONG.keys())
async def test_a_wrong_description_is_refused_in_words(tmp_path: Path, changes: dict[str, object], says: str) -> None:
    """Each mistake is told before anything is signed."""
    with pytest.raises(CommandError, match=says):
        await push(Settings(home=tmp_path / "home"), folder_of(tmp_path / "model", **changes), CHOICES, silent)


BAD_CODE: dict[str, tuple[str, str]] = {
    "syntax": ("import torch\n\ndef broken(:\n", r"handler\.py, line 3 is not valid Python: invalid syntax"),
    "a return outside": ("x = 1\nreturn x\n", r"handler\.py, line 2 is not valid Python"),
    "a null byte": ("x = 1\0", r"handler\.py.* is not valid Python"),
    "a module beside it": ("def f():\n    from features.more import x\n", r"imports features, which is features\.py"),
    "a relative import": ("from . import features\n", r"handler\.py, line 1 imports what stands beside it"),
}


@pytest.mark.parametrize(("code", "says"), BAD_CODE.values(), ids=BAD_CODE.keys())
async def test_code_that_can_not_run_is_refused_at_push(tmp_path: Path, code: str, says: str) -> None:
    """What every worker would fail of is told with its line, before a version of it exists."""
    folder = folder_of(tmp_path / "model")
    (folder / "handler.py").write_text(code)
    (folder / "features.py").write_text("x = 1\n")
    with pytest.raises(CommandError, match=says):
        await push(Settings(home=tmp_path / "home"), folder, CHOICES, silent)


async def test_files_that_are_left_out_are_told(tmp_path: Path) -> None:
    """What a folder holds beside its version is named, with what a version holds; hidden files are nobody's wish."""
    folder, said = folder_of(tmp_path / "model"), list[str]()
    (folder / ".gitignore").write_text("x")
    (folder / "train.py").write_text("x")
    await push(Settings(home=tmp_path / "home"), folder, CHOICES, said.append)
    assert said[0].startswith("tiny: left out notes.txt, train.py: a version holds *.safetensors, ")
    assert "labels.txt" in said[0]


async def test_optional_inputs_and_notes_are_part_of_the_version(tmp_path: Path) -> None:
    """What a tensor's description says beside its kind stands in the signed manifest."""
    inputs = [
        {"name": "ids", "datatype": "INT64", "shape": [-1, 8], "note": "token ids"},
        {"name": "mask", "datatype": "BOOL", "shape": [-1, 8], "optional": True},
    ]
    folder = folder_of(tmp_path / "model", inputs=inputs)
    handler = (await push(Settings(home=tmp_path / "home"), folder, CHOICES, silent)).manifest.handler
    assert handler is not None
    assert (handler.optional, handler.notes) == (("mask",), (("ids", "token ids"),))


def test_a_handler_without_a_description_is_refused(tmp_path: Path) -> None:
    """Code alone says nothing of what goes in and out."""
    (tmp_path / "handler.py").write_text("")
    with pytest.raises(ArtifactRefused, match=r"needs a handler\.json"):
        handlers.read(tmp_path)


async def test_pickled_weights_become_safetensors(tmp_path: Path) -> None:
    """A model's .pth is converted on its way in; the caller's folder stays as it is."""
    folder = folder_of(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    torch.save(torch.nn.Linear(3, 2).state_dict(), folder / "model.pth")
    before = sorted(path.name for path in folder.iterdir())
    manifest = (await push(Settings(home=tmp_path / "home"), folder, CHOICES, silent)).manifest
    assert "model.safetensors" in {file.path for file in manifest.files}
    assert sorted(path.name for path in folder.iterdir()) == before


class Evil:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (exec, ("raise SystemExit(5)",))


def save_script(path: Path) -> None:
    """Save a model as TorchScript, which torch calls deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.trace(torch.nn.Linear(3, 2), torch.zeros(1, 3)).save(str(path))


NO_WEIGHTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "code": (lambda path: torch.save({"w": Evil()}, path), "something else than tensors"),
    "a whole model": (lambda path: torch.save(torch.nn.Linear(3, 2), path), "a whole model"),
    "TorchScript": (save_script, "TorchScript"),
    "a checkpoint": (lambda path: torch.save({"w": torch.zeros(1), "epoch": 3}, path), "'epoch' in it is no tensor"),
    "nothing": (Path.touch, "damaged or cut off"),
}


@pytest.mark.parametrize(("save", "says"), NO_WEIGHTS.values(), ids=NO_WEIGHTS.keys())
async def test_a_pickle_that_is_no_weights_is_refused_in_a_sentence(
    tmp_path: Path, save: Callable[[Path], object], says: str
) -> None:
    """Only tensors are read; torch's traceback advised to read it all the same, and we to install what was there."""
    folder = folder_of(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    save(folder / "model.pth")
    with pytest.raises(CommandError, match=r"^model\.pth can't be converted: ") as refused:
        await push(Settings(home=tmp_path / "home"), folder, CHOICES, silent)
    assert says in refused.value.what
    assert "\n" not in refused.value.what
    assert "torch.save(model.state_dict(), ...)" in refused.value.do


def test_what_is_no_state_dict_is_told() -> None:
    """A whole module, or numbers among the tensors, is refused with what to save instead."""
    with pytest.raises(NotWeights, match="not a state dict"):
        tensors_of([torch.zeros(1)])
    with pytest.raises(NotWeights, match="'epoch' in it is no tensor"):
        tensors_of({"w": torch.zeros(1), "epoch": 3})
    assert set(tensors_of({"state_dict": {"w": torch.zeros(1)}})) == {"w"}


@pytest.mark.parametrize(
    "other",
    [torch.tensor([0.0, -0.0]), torch.tensor([0.0, 0.0], dtype=torch.float64), torch.zeros(1, 2)],
    ids=["a sign of zero", "dtype", "shape"],
)
def test_the_comparison_is_of_bits(other: torch.Tensor) -> None:
    """Numbers that are equal are not enough: the bits must be."""
    with pytest.raises(NotWeights, match="differs in the converted file"):
        compare({"w": torch.tensor([0.0, 0.0])}, {"w": other})
    nan = torch.tensor([float("nan")])
    compare({"w": nan}, {"w": nan.clone()})


def test_a_wheel_without_the_classes_is_refused(tmp_path: Path) -> None:
    """Another wheel under the pinned name would not do."""
    (tmp_path / "timm.whl").write_bytes(b"no archive")
    with pytest.raises(ArtifactRefused, match="does not name the classes"):
        demo.class_names(tmp_path / "timm.whl")
