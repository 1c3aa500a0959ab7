"""The observed platforms for all tests that look at them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import DEMO_CACHE
from tests.support.platforms import full
from tests.support.platforms.local import Platform
from tests.support.platforms.observed import Observed
from tests.support.stores.redis_server import RedisServer

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
        settings = {**shared_settings, **SETTINGS, **full.SETTINGS, "limits_url": redis.url}
        with Platform(home=homes / "crowded", models=full.MODELS, settings=settings) as running:
            found = Observed(running)
            full.prepare(found, next(one for one in DEMO_CACHE.glob("smollm2-*") if one.is_dir()))
            yield found
