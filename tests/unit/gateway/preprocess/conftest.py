"""A counter for the tests of this room."""

from collections.abc import Iterator

import pytest

from tests.support.models import tokenizers
from tests.support.models.prompt_counter import Counter, counter_of


@pytest.fixture(scope="module", params=["small", "smollm2"])
def counter(request: pytest.FixtureRequest) -> Iterator[Counter]:
    """Yield a counter with a small tokenizer, and one with SmolLM2's."""
    blob = tokenizers.small() if request.param == "small" else tokenizers.demo("<|im_start|>")
    if blob is None:
        pytest.skip("SmolLM2 is not prepared here (make models)")
    made = counter_of(blob)
    yield made
    made.preprocessor.close()
