"""What the tests of classic models share: one platform with image model, text classifier and the encoder on torch."""

from collections.abc import Iterator

import pytest

from tests.integration.conftest import HomeMaker
from tests.support.platforms.local import Platform


@pytest.fixture(scope="session")
def classic_platform(new_home: HomeMaker, shared_settings: dict[str, str]) -> Iterator[Platform]:
    """Yield the session's platform of classic models, one worker each. Tests leave it as they found it."""
    with Platform(
        home=new_home("classic"), models="efficientnet,minilm-torch,topics", settings=shared_settings
    ) as running:
        yield running
