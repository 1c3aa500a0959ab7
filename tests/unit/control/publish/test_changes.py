"""What a new table changes for callers."""

from dataclasses import replace

from penstock.control.publish.changes import changes
from penstock.domain.fleet.table import EMPTY, RoutingTable, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import WorkerId
from penstock.domain.serving.report import Load
from tests.support.samples.calls import VERSION
from tests.support.samples.control_plane import route


def table(*workers: WorkerEntry, alias: str = "toy") -> RoutingTable:
    versions = (replace(VERSION, workers=workers),)
    return RoutingTable(number=1, made_at=0.0, routes=(route(alias, VERSION.id),), versions=versions)


def worker(name: str, state: WorkerState = WorkerState.READY) -> WorkerEntry:
    return WorkerEntry(id=WorkerId(name), url="http://w", state=state)


def told(before: RoutingTable, after: RoutingTable) -> list[tuple[str, str, str]]:
    return [(one.what, one.target, one.value) for one in changes(before, after)]


def test_who_begins_and_who_ends_to_serve_is_told() -> None:
    """Ready, draining and silent workers change who gets traffic; one that loads does not."""
    before = table(worker("w1"), worker("w2"), worker("w3", WorkerState.LOADING))
    after = table(worker("w1", WorkerState.DRAINING), worker("w3"), worker("w4", WorkerState.LOADING))
    assert told(before, after) == [
        ("withhold", "w1", "draining"),
        ("withhold", "w2", "stopped, or no heartbeat in time"),
        ("send", "w3", "ready"),
    ]


def test_where_aliases_lead_is_told() -> None:
    """A new alias and one that is gone are decisions; all of them name the shares."""
    assert told(EMPTY, table()) == [("route", "toy", f"{VERSION.id} 100 %")]
    assert told(table(), table(alias="other")) == [
        ("route", "other", f"{VERSION.id} 100 %"),
        ("route", "toy", "nowhere"),
    ]


def test_a_load_is_no_decision() -> None:
    """A table that differs in what workers have to do says nothing."""
    busy = replace(worker("w1"), load=Load(running=9))
    assert told(table(worker("w1")), table(busy)) == []
