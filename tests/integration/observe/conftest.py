"""An observed platform with more versions than it holds at once."""

from collections.abc import Iterator

import pytest

from tests.integration.conftest import DEMO_CACHE, HomeMaker
from tests.support.platforms import full
from tests.support.platforms.local import Platform
from tests.support.platforms.observed import SETTINGS, Observed
from tests.support.stores.redis_server import RedisServer


@pytest.fixture(scope="session")
def crowded(new_home: HomeMaker, shared_settings: dict[str, str]) -> Iterator[Observed]:
    """Yield a platform with more versions than its pool holds, adapters among them, and an alias under rollout."""
    home = new_home("crowded")
    with RedisServer(home.parent) as redis:
        settings = {**shared_settings, **SETTINGS, **full.SETTINGS, "limits_url": redis.url}
        with Platform(home=home, models=full.MODELS, settings=settings) as running:
            found = Observed(running)
            full.prepare(found, next(one for one in DEMO_CACHE.glob("smollm2-*") if one.is_dir()))
            yield found
