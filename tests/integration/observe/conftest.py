"""The observed platforms for all tests that look at them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import DEMO_CACHE
from tests.support import crowd
from tests.support.observed import Observed
from tests.support.platform import Platform
from tests.support.redis_server import RedisServer

SETTINGS = {"observe": "true", "scrape_s": "1"}


@pytest.fixture(scope="session")
def observed(homes: Path, shared_settings: dict[str, str]) -> Iterator[Observed]:
    """Yield a platform with SmolLM2 and MiniLM that a real Prometheus reads each second."""
    with Platform(home=homes / "observed", settings={**shared_settings, **SETTINGS}) as running:
        yield Observed(running)


@pytest.fixture(scope="session")
def crowded(homes: Path, shared_settings: dict[str, str]) -> Iterator[Observed]:
    """Yield a platform with more versions than its pool holds, adapters among them, and an alias under rollout."""
    with RedisServer(homes) as redis:
        settings = {**shared_settings, **SETTINGS, **crowd.SETTINGS, "limits_url": redis.url}
        with Platform(home=homes / "crowded", models=crowd.MODELS, settings=settings) as running:
            found = Observed(running)
            crowd.prepare(found, next(one for one in DEMO_CACHE.glob("smollm2-*") if one.is_dir()))
            yield found
