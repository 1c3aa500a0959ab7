"""Two tenants and one of each kind of key on the session's platform."""

import time
from collections.abc import Iterator

import pytest

from tests.support.patience import until
from tests.support.platforms.local import Platform
from tests.support.platforms.tenants import Strangers


@pytest.fixture(scope="session")
def strangers(platform: Platform) -> Iterator[Strangers]:
    """Yield a victim with an organisation, a key and a plan, and the keys that must not reach any of it."""
    made = Strangers(platform=platform, name=f"t{time.time_ns():x}")
    made.prepare()
    with platform.http(made.infer) as http:
        until("the new keys have reached the gateway", lambda: http.get("/v1/models").status_code == 200, within_s=5)
    yield made
    made.leave()
