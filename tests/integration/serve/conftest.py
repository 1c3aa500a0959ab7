"""The official SDK as a client of the session's platform."""

from collections.abc import Iterator

import pytest
from openai import OpenAI

from tests.support.platforms.local import Platform


@pytest.fixture(scope="session")
def client(platform: Platform) -> Iterator[OpenAI]:
    """Yield the SDK with the demo tenant's key; it never retries, so that a fault is seen."""
    with OpenAI(base_url=f"{platform.url}/v1", api_key=platform.demo_key, max_retries=0, timeout=60) as sdk:
        yield sdk
