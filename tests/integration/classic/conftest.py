"""What the tests of classic models share: one platform with image model, text classifier and the encoder on torch."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.platforms.local import Platform


@pytest.fixture(scope="session")
def classic_platform(homes: Path, shared_settings: dict[str, str]) -> Iterator[Platform]:
    """Yield the session's platform of classic models, one worker each. Tests leave it as they found it."""
    with Platform(
        home=homes / "classic", models="efficientnet,minilm-torch,topics", settings=shared_settings
    ) as running:
        yield running
