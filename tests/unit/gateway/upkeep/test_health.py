"""What a gateway tells of its open circuits: a series of each, from its opening to its closing."""

import time

import pytest

from penstock.gateway.dispatch.records import Change, Level
from penstock.gateway.upkeep import health
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics

OPENED = names.BREAKER_OPENED.name


def opened(metrics: Metrics) -> dict[str, float]:
    lines = metrics.exposition().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line.startswith(OPENED)}


@pytest.mark.parametrize(
    ("level", "name", "version", "labels"),
    [
        (Level.WORKER, "w1", "toy@1", 'level="worker",version="toy@1",worker="w1",zone=""'),
        (Level.ZONE, "b", "", 'level="zone",version="",worker="",zone="b"'),
        (Level.VERSION, "toy@1", "", 'level="version",version="toy@1",worker="",zone=""'),
    ],
)
def test_an_open_circuit_has_a_series_until_it_closes(level: Level, name: str, version: str, labels: str) -> None:
    """It names version, worker or zone and the second of its opening; also of a worker that left the table."""
    metrics = Metrics()
    report = health._reporter(metrics)
    report(Change(level=level, name=name, is_open=True, reason="probe failed", version=version))
    (found,) = opened(metrics).items()
    assert found[0] == f"{OPENED}{{{labels}}}"
    assert found[1] == pytest.approx(time.time(), abs=5)
    report(Change(level=level, name=name, is_open=False, reason="left"))
    assert opened(metrics) == {}
