"""When a certificate ends is a metric, and follows the files."""

from pathlib import Path

import pytest

from penstock.telemetry import names
from penstock.telemetry.definitions import Metric
from penstock.telemetry.metrics import Metrics
from penstock.tls import authority
from penstock.tls.identity import Role
from penstock.tls.mutual import Mutual, show_expiry
from tests.support.clock import ManualClock
from tests.support.tls.certificates import DAY_S, Issuer


def value(metrics: Metrics, metric: Metric) -> float:
    found = metrics.registry.get_sample_value(metric.name, {"role": "gateway"})
    assert found is not None
    return found


def test_without_a_certificate_nothing_is_shown() -> None:
    """A process without TLS has no certificate that ended in 1970."""
    assert b"\npenstock_certificate_ends" not in Metrics().exposition()


def test_the_certificate_in_force_is_shown(tmp_path: Path) -> None:
    """Whoever renews a certificate ends the alert by that: the files are looked at when somebody asks."""
    issuer, metrics = Issuer(tmp_path), Metrics()
    pair = issuer.issued(Role.GATEWAY, days=1)
    clock = ManualClock(epoch_s=authority.ends_at(pair.certificate) - 600)
    mutual = Mutual(issuer.mounted(Role.GATEWAY, pair), Role.GATEWAY, clock)
    show_expiry(mutual.now, metrics)
    starts, ends = value(metrics, names.CERTIFICATE_STARTS_AT), value(metrics, names.CERTIFICATE_ENDS_AT)
    assert ends == clock.now() + 600
    assert starts == pytest.approx(ends - DAY_S, abs=3600)
    issuer.mounted(Role.GATEWAY, issuer.issued(Role.GATEWAY, days=3))
    assert value(metrics, names.CERTIFICATE_ENDS_AT) == ends
    clock.advance(2.0)
    assert value(metrics, names.CERTIFICATE_ENDS_AT) == pytest.approx(ends + 2 * DAY_S, abs=60)
