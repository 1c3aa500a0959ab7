"""What `penstock up` says at its end: how to call what it serves."""

import json

import pytest

from penstock.local.question import EXAMPLES, example
from penstock.packaging.demo_models import DEMO_MODELS
from penstock.settings import Settings

IMAGES = {"efficientnet"}


def test_each_model_of_texts_has_an_example() -> None:
    """None is served whose caller is shown nothing, but where an image is needed."""
    assert set(EXAMPLES) == set(DEMO_MODELS) - IMAGES


@pytest.mark.parametrize(
    ("models", "workers", "path", "asked"),
    [
        ("minilm,smollm2", 1, "/v1/chat/completions", "smollm2"),
        ("topics,minilm", 1, "/v1/embeddings", "minilm"),
        ("efficientnet,topics", 1, "/v1/classify", "topics"),
        ("efficientnet", 1, "", ""),
        ("smollm2", 0, "", ""),
    ],
)
def test_the_example_is_for_a_model_that_is_served(models: str, workers: int, path: str, asked: str) -> None:
    """A curl line for smollm2 was shown where nobody served it."""
    lines = example(Settings().model_copy(update={"models": models, "workers": workers}), "http://gateway")
    assert bool(lines) is bool(path)
    if lines:
        assert f"http://gateway{path} " in lines[1]
        assert json.loads(lines[-1].strip().removeprefix("-d '").removesuffix("'"))["model"] == asked
