"""The whole way of a number of gateways on one machine: scale file, gateways' reports, controller, supervisor."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.conftest import PlatformMaker
from tests.support.patience import until
from tests.support.platforms.local import Platform
from tests.support.stores.redis_server import RedisServer

pytestmark = pytest.mark.integration
MOST = 4


def write(file: Path, least: int) -> None:
    file.write_text(f"gateways: {{least: {least}, most: {MOST}}}\n")


@pytest.fixture
def scaled(start_platform: PlatformMaker, tmp_path: Path) -> Iterator[Platform]:
    """Yield a platform without workers, two gateways at least, and real stores that they share."""
    file = tmp_path / "scale.yaml"
    write(file, 2)
    with RedisServer(tmp_path) as redis:
        yield start_platform(
            workers=0, scale_file=str(file), limits_url=redis.url, answers_url=redis.answers_url, gateways="1"
        )


def alive(platform: Platform) -> list[int]:
    return [pid for pid in platform.pids("gateway") if pid]


def listed(platform: Platform) -> int:
    with platform.http() as http:
        return http.get("/v1/models").status_code


def test_the_supervisor_follows_the_controllers_number(scaled: Platform, tmp_path: Path) -> None:
    """The file's floor binds at the start; a controller with a higher one gets more processes, and one that is dead
    or young takes none away.
    """
    first = alive(scaled)
    assert len(first) == 2
    write(tmp_path / "scale.yaml", 3)
    killed = scaled.kill("controller")
    until("another controller runs", lambda: set(scaled.pids("controller")).isdisjoint({0, *killed}), within_s=60)
    until("a third gateway runs", lambda: len(alive(scaled)) == 3, within_s=90)
    assert set(first) < set(alive(scaled)), "none of those that served has gone"
    assert {listed(scaled) for _ in range(12)} == {httpx.codes.OK}
    shown = httpx.get(
        f"{scaled.controller_url}/admin/v1/scale",
        headers={"authorization": f"Bearer {scaled.admin_key}"},
        trust_env=False,
        timeout=30,
    ).json()
    assert shown["gateways_wanted"] == 3
