"""Golden prompts from a file: what is written is what workers are asked, and none is taken that can't be got wrong."""

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.model import GoldenPrompt, Task
from penstock.formats import manifests
from penstock.packaging.packing import describe, measure
from penstock.packaging.reading import golden_of
from tests.support.models.versions import CHOICES, model_folder

JAPAN = GoldenPrompt(prompt="What is the capital of Japan?", expect="Tokyo")


def test_a_file_of_prompts_becomes_part_of_the_version(tmp_path: Path) -> None:
    """Fields that are left out have the manifest's own defaults."""
    path = tmp_path / "golden.json"
    path.write_text(
        '[{"prompt": "What is the capital of Japan?", "expect": "Tokyo"}, {"prompt": "a", "expect": "b",'
        ' "max_tokens": 4}]'
    )
    asked = golden_of(path)
    assert asked == (JAPAN, GoldenPrompt(prompt="a", expect="b", max_tokens=4))
    folder = model_folder(tmp_path / "model")
    assert describe(folder, measure(folder), replace(CHOICES, golden=asked)).golden == asked


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "no golden prompt"),
        ('{"prompt": "a"}', "write a list of objects"),
        ('[{"prompt": "a", "expected": "b"}]', "prompt, expect, max_tokens, near, far"),
        ('[{"expect": "b"}]', "prompt"),
        ('[{"prompt": "a", "expect": 1}]', "Expected `str`"),
        ("Tokyo", "no valid JSON"),
        ("\x00", "no valid JSON"),
    ],
)
def test_a_file_that_is_none_is_refused_with_what_to_write(tmp_path: Path, text: str, says: str) -> None:
    """The words name the file, what is wrong in it, and the fields that there are."""
    path = tmp_path / "golden.json"
    path.write_text(text)
    with pytest.raises(ArtifactRefused, match=r"golden\.json") as caught:
        golden_of(path)
    assert says in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A wrong path is no crash."""
    with pytest.raises(ArtifactRefused, match=r"none\.json: No such file"):
        golden_of(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("task", "prompt", "says"),
    [
        (Task.GENERATE, GoldenPrompt(prompt="a"), "say what must be in the answer"),
        (Task.CLASSIFY, GoldenPrompt(prompt="a", near="b", far="c"), "say what must be in the answer"),
        (Task.EMBED, GoldenPrompt(prompt="a", expect="b"), "near and far"),
        (Task.GENERATE, GoldenPrompt(prompt="", expect="b"), "asks nothing"),
        (Task.GENERATE, GoldenPrompt(prompt="a", expect="b", max_tokens=0), "from 1 to 256"),
        (Task.GENERATE, GoldenPrompt(prompt="a", expect="b", max_tokens=10**9), "from 1 to 256"),
    ],
)
def test_what_no_answer_could_get_wrong_is_refused(task: Task, prompt: GoldenPrompt, says: str) -> None:
    """An empty expectation is in every text: such a prompt would let any weights become ready."""
    with pytest.raises(ArtifactRefused, match=r"golden\[1\]") as caught:
        manifests.check_golden([replace(JAPAN, near="b", far="c"), prompt], task)
    assert says in str(caught.value)
