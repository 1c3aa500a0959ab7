"""`penstock up --observe`: a real Prometheus and Alertmanager beside a real platform, for as long as it lives."""

import re
from pathlib import Path

import httpx
import pytest

from tests.support.patience import until
from tests.support.platforms.local import Platform
from tests.support.platforms.observed import PATIENCE_S, Observed
from tests.support.tree import ROOT

pytestmark = pytest.mark.observe


def test_every_process_is_scraped_under_its_own_name(observed: Observed) -> None:
    """Gateway, controller and workers have zone and role, workers their version too; metrics keep their own labels."""
    until("all are scraped", lambda: observed.roles() == ["controller", "gateway", "supervisor", "worker", "worker"])
    up = observed.up()
    assert {labels["zone"] for labels in up.values()} == {"local"}
    assert up["gateway-1"]["role"] == "gateway"
    workers = {labels["version"]: name for name, labels in up.items() if labels["role"] == "worker"}
    seen = observed.query("penstock_kv_used_ratio")
    assert seen
    for one in seen:
        assert workers[one["metric"]["version"]] == one["metric"]["instance"] == one["metric"]["worker"]
    assert not observed.query('{__name__=~"penstock_.+", exported_version!=""}')


def test_a_successor_is_scraped_in_its_predecessors_place(observed: Observed) -> None:
    """After kill -9 of the gateway its successor's page, on another port, goes on under the same name."""
    until("the gateway is scraped", lambda: "gateway-1" in observed.up())
    page = observed.platform.metrics_url
    observed.platform.kill("gateway")
    until("the successor shows its metrics", lambda: _page(observed.platform) not in ("", page))
    until(
        "the successor is scraped",
        lambda: _page(observed.platform) in {target["scrapeUrl"] for target in _active(observed)},
    )
    until("the name is there", lambda: "gateway-1" in observed.up())


def _page(platform: Platform) -> str:
    try:
        return platform.metrics_url
    except OSError:
        return ""


def _active(observed: Observed) -> list[dict[str, str]]:
    return [target for target in observed.api("targets")["activeTargets"] if target["health"] == "up"]


def test_rules_are_judged_and_alertmanager_hears_of_them(observed: Observed) -> None:
    """Each alert on a cause and the rules of the promises are loaded without an error, and Alertmanager is there."""
    until(
        "every rule was judged",
        lambda: all(rule["health"] == "ok" for group in observed.api("rules")["groups"] for rule in group["rules"]),
    )
    files = {Path(group["file"]).name for group in observed.api("rules")["groups"]}
    assert "penstock-slo-chat.yaml" in files
    assert files >= {f"penstock-{path.name}" for path in (ROOT / "slo/alerts").glob("*.yaml")}
    until("alertmanager is known", lambda: bool(observed.api("alertmanagers")["activeAlertmanagers"]))
    assert httpx.get(f"{observed.alertmanager}/-/healthy", trust_env=False).is_success


LINKED = re.compile(r"""(?:href|src)="(/[^"#]*)\"""")
PAGES = ("graph", "alerts", "rules", "targets", "status")


def test_prometheus_has_its_pages(observed: Observed) -> None:
    """Where an alert's link leads there is a page, and so are all others, scripts and styles to which it links."""
    with httpx.Client(base_url=observed.prometheus, trust_env=False, timeout=PATIENCE_S, follow_redirects=True) as http:
        answer = http.get("/graph", params={"g0.expr": "up", "g0.tab": "1"})
        linked = set(LINKED.findall(answer.text))
        assert answer.is_success
        assert {page for page in PAGES if not any(one.endswith(f"/{page}") for one in linked)} == set()
        assert {one for one in linked if not http.get(one).is_success} == set()


def test_alertmanager_has_a_page_of_alerts(observed: Observed) -> None:
    """It shows what the API knows, by itself: nothing is fetched from elsewhere."""
    answer = httpx.get(f"{observed.alertmanager}/#/alerts", trust_env=False)
    assert answer.is_success
    assert "<title>Alerts" in answer.text
    assert 'fetch("api/v2/alerts")' in answer.text
    assert not re.search(r"https?://", answer.text)


def test_alerts_link_to_the_address_that_is_shown(observed: Observed) -> None:
    """An alert's link leads to the Prometheus of this home, under any host name."""
    flags = observed.api("status/flags")
    assert flags["web.external-url"] == observed.prometheus


def test_addresses_are_shown(observed: Observed) -> None:
    """The status and the start's screen name the addresses."""
    status = observed.platform.run("status").stdout
    for url in (observed.prometheus, observed.alertmanager):
        assert url in status
        assert url in observed.platform.screen


def test_a_killed_prometheus_comes_back_with_what_it_knew(observed: Observed) -> None:
    """Serving takes no notice, and samples from before are still there."""
    until("something is known", lambda: bool(observed.query("up")))
    before = observed.platform.kill("prometheus")
    with observed.platform.http() as http:
        assert http.get("/v1/models").status_code == 200
    until("another one runs", lambda: observed.platform.pids("prometheus") not in (before, [0]))
    until("it answers", lambda: _answers(observed))
    assert observed.query("count_over_time(up[10m])")


def _answers(observed: Observed) -> bool:
    try:
        return httpx.get(f"{observed.prometheus}/-/ready", trust_env=False).is_success
    except httpx.HTTPError:
        return False
