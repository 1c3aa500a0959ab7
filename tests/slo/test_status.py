"""`penstock slo status` on a real Prometheus: its queries find what the rules record."""

import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import application
from penstock.slo import recorded
from tests.support.monitoring import prometheus

app = application()

pytestmark = pytest.mark.observe


def samples(at: float) -> str:
    """Return what rules would have recorded of one promise, a minute ago."""
    told = {
        recorded.BAD_EVENTS: 10.0,
        recorded.EVENTS: 400.0,
        recorded.error_ratio("28d"): 0.025,
        recorded.error_ratio("1h"): 0.2,
        recorded.error_ratio("6h"): 0.1,
        recorded.error_ratio("30m"): 0.9,
    }
    lines = [f'{name}{{tier="chat",objective="ttft"}} {value} {at:.0f}' for name, value in told.items()]
    return "\n".join([*lines, "# EOF\n"])


def test_a_real_prometheus_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a budget is left, it burns twice as fast as allowed, and lasts a week; what has no series is unknown."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    with prometheus.holding(tmp_path, samples(time.time() - 60)) as url:
        result = CliRunner().invoke(app, ["slo", "status", "--prometheus", url, "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    budgets = {one["objective"]: one for one in told["budgets"]}
    assert budgets["ttft"]["left_ratio"] == pytest.approx(0.5)
    assert budgets["ttft"]["burns"] == {"1h": pytest.approx(4), "6h": pytest.approx(2), "3d": None}
    assert budgets["ttft"]["spent_in_s"] == pytest.approx(7 * 86_400)
    assert budgets["ttft"]["seen"] == {"bad": pytest.approx(300), "events": pytest.approx(12_000)}
    assert budgets["itl"]["left_ratio"] is None
    assert told["unserved"] == ["batch", "classic", "embedding", "standard"]
    assert told["rollouts"]["pace"] == "slow"
