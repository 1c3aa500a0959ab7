"""The classifier of the pack `abuse` is what its authors' pickles say: converted again, in its own environment."""

import random
from importlib.resources import files

import pytest

from penstock.filters.linear import Linear
from scripts import toxicity
from tests.support import tree

pytestmark = [pytest.mark.integration, pytest.mark.drill, pytest.mark.timeout(1_800)]

SHIPPED = files("penstock.filters.shipped").joinpath("toxicity.safetensors").read_bytes()


def texts() -> list[str]:
    """Return lines of prose and code, and words of the vocabulary at random."""
    chance, model = random.Random(1), Linear(SHIPPED)
    prose = (tree.ROOT / "docs/quickstart.md").read_text().splitlines()
    code = (tree.ROOT / "platform/penstock/gateway/pipeline.py").read_text().splitlines()
    mixed = [" ".join(chance.choices(model.words, k=chance.randint(1, 12))) for _ in range(2_000)]
    return [*prose, *code, *mixed]


def test_the_shipped_classifier_is_the_original() -> None:
    """Converting the pinned wheel gives the shipped bytes, and the original the scores of our own code."""
    asked = texts()
    made = toxicity.original(asked)
    assert made.converted == SHIPPED
    model = Linear(SHIPPED)
    assert [model.score(text) for text in asked] == pytest.approx(made.scores, abs=1e-6)
