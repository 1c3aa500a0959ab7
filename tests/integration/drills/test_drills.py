"""Each alert that pages: its fault on real processes, the alert in a real Prometheus, its runbook as written.

Two alerts are about engines that misbehave, which real ones don't: there a real gateway stands before stand-ins.
"""

import pytest

from tests.support.failures import injected
from tests.support.failures.drill import Desk, Drill, run
from tests.support.failures.injected import Stage
from tests.support.gateways.zones import Site
from tests.support.patience import until
from tests.support.platforms.rollouts import ALIAS, Crowd

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(420)]

DRILLS: tuple[Drill[Stage], ...] = (
    Drill(
        alert="LimitsStoreAway",
        fault=injected.store_away,
        mend=injected.store_back,
        shows=("limits_store_away",),
        silent=(),
    ),
    Drill(
        alert="LimitsNotCounted",
        fault=injected.uncounted,
        mend=injected.store_back,
        shows=("limits_when_away: requests=open", "limits_store_away"),
        silent=(),
        pace=6,
    ),
    Drill(
        alert="DatabaseAway",
        fault=injected.database_dies,
        mend=injected.database_stays,
        shows=("process_restarted", "postgres"),
        silent=(),
        pace=10,
    ),
    Drill(
        alert="RoutingTableStale",
        fault=injected.database_away,
        mend=injected.database_back,
        shows=("source_is_away",),
        silent=("penstock_routing_table_age_seconds > 60", "penstock_routing_tables_refused_total"),
        pace=10,
        seconds=(60,),
    ),
    Drill(
        alert="LedgerBehind",
        fault=injected.rows_waiting,
        mend=injected.database_back,
        shows=("ledger_away",),
        silent=(),
        pace=10,
        seconds=(120,),
    ),
    Drill(
        alert="DiskFull",
        fault=injected.disk_full,
        mend=injected.disk_with_room,
        shows=("Disk full: ",),
        silent=(),
    ),
    Drill(
        alert="ControllerAway",
        fault=injected.controller_stuck,
        mend=injected.controller_replaced,
        silent=("penstock logs supervisor -e process_restarted", "penstock_control_leader"),
        fails=("penstock status",),
        pace=10,
    ),
    Drill(
        alert="VersionRefusedEarly",
        fault=injected.workers_lost,
        mend=injected.workers_replaced,
        shows=("breaker_turned", "every worker is down"),
        silent=("penstock_workers", "sum by (version, reason) (increase(penstock_engine_restarts_total[15m]))"),
        fails=("penstock status",),
    ),
    Drill(alert="WorkerNeverReady", fault=injected.files_gone, mend=injected.files_back, pace=60),
    Drill(
        alert="GoldenPromptsFailed",
        fault=injected.wrong_version,
        mend=injected.wrong_version_withdrawn,
        shows=("golden prompt 1 of 1: expected the near text",),
        pace=20,
    ),
    Drill(
        alert="CertificateExpires",
        fault=injected.certificate_forgotten,
        mend=injected.certificate_renewed,
        shows=("certificate_expires", "notAfter="),
        pace=60,
    ),
)


def zone_gone(site: Site) -> None:
    """Have all engines of a zone break every connection, and ask until the gateway has found it lost."""
    for name, engine in site.engines.items():
        if name.startswith("toy-b"):
            engine.behave(mode="reset")
    until("the zone is avoided", lambda: _asked(site) and "most workers are down" in site.gateway.log, within_s=30)


def zone_back(site: Site) -> None:
    for engine in site.engines.values():
        engine.behave(mode="ok")


def _asked(site: Site) -> bool:
    return site.ask("toy").status_code == 200


def worker_lies(site: Site) -> None:
    """Ask engines that tell more prompt tokens than the prompt has."""
    for _ in range(3):
        assert _asked(site)


def worker_ended(site: Site) -> None:
    """Ask no more: a failed worker is gone."""


OF_GATEWAYS: tuple[Drill[Site], ...] = (
    Drill(
        alert="ZoneAvoided", fault=zone_gone, mend=zone_back, shows=("breaker_turned", "most workers are down"), pace=6
    ),
    Drill(alert="BillsCapped", fault=worker_lies, mend=worker_ended, shows=("bill_capped",), pace=30),
)


def promoted_too_soon(crowd: Crowd) -> None:
    """Have a person promote a candidate that goes on to break."""
    engine = crowd.place.site.engines[1]
    candidate = crowd.place.version(engine)
    rollout = crowd.place.start(candidate)
    crowd.place.call("POST", f"/rollouts/{rollout}/promote", {"reason": "it is urgent"})
    engine.behave(mode="error", status=500)


def promotion_taken_back(crowd: Crowd) -> None:
    """End it as the runbook says: by the command line."""
    told = crowd.command("rollout", "abort", ALIAS, "--reason", "callers get errors")
    assert "aborted" in told, told


OF_ROLLOUTS: tuple[Drill[Crowd], ...] = (
    Drill(
        alert="RolloutUndoProposed",
        fault=promoted_too_soon,
        mend=promotion_taken_back,
        shows=("to abort is proposed", "rollout.promote", "bad: "),
    ),
)
QUICK = ("LimitsStoreAway", "RoutingTableStale")
"""Those that `make observe-test` runs as well."""


def marked(drill: Drill[Stage]) -> object:
    return pytest.param(drill, id=drill.alert, marks=pytest.mark.observe if drill.alert in QUICK else pytest.mark.drill)


@pytest.mark.parametrize("drill", [marked(drill) for drill in DRILLS])
def test_a_fault_is_heard_of_and_mended(stage: Stage, desk: Desk, drill: Drill[Stage]) -> None:
    """The alert fires, its runbook's commands show the fault, and what it says to do ends it."""
    run(drill, stage, desk)


@pytest.mark.drill
@pytest.mark.parametrize("drill", OF_GATEWAYS, ids=lambda drill: drill.alert)
def test_a_fault_of_engines_is_heard_of_and_mended(zones: Site, gateway_desk: Desk, drill: Drill[Site]) -> None:
    """The same, before stand-ins for engines that real ones can't be made to be."""
    run(drill, zones, gateway_desk)


@pytest.mark.drill
@pytest.mark.parametrize("drill", OF_ROLLOUTS, ids=lambda drill: drill.alert)
def test_a_fault_of_a_rollout_is_heard_of_and_mended(crowd: Crowd, rollout_desk: Desk, drill: Drill[Crowd]) -> None:
    """The same, while users of a rollout's alias go on asking."""
    run(drill, crowd, rollout_desk)
