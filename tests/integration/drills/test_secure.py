"""Metrics of a platform with mutual TLS, and its end: these tests come last, since they stop what the drills run on."""

import pytest

from tests.support.failures.injected import Stage
from tests.support.patience import until
from tests.support.platforms.local import STOP_WITHIN_S
from tests.support.platforms.observed import Observed

pytestmark = [pytest.mark.observe, pytest.mark.integration]
ROLES = ["controller", "gateway", "supervisor", "worker"]


def test_a_replaced_worker_is_followed_by_its_name(stage: Stage) -> None:
    """With mutual TLS too, the new worker alone is scraped."""
    observed = Observed(stage.platform)
    until("all are scraped", lambda: observed.roles() == ROLES)
    (before,) = (name for name, labels in observed.up().items() if labels["role"] == "worker")
    stage.platform.run("restart", "workers")
    until(
        "the new worker alone is scraped",
        lambda: observed.roles() == ROLES and before not in observed.up(),
        within_s=90,
    )


def test_nothing_outlives_the_platform(stage: Stage) -> None:
    """Its own end takes Prometheus and Alertmanager along: nothing is left to be killed."""
    platform, process = stage.platform, stage.platform.process
    assert process is not None
    process.terminate()
    assert process.wait(STOP_WITHIN_S) == 0
    assert platform.survivors() == []
    assert not (platform.home / "run/prometheus.addr").exists()
