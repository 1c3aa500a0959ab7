"""`penstock status` as the first screen: the leader by name, each open circuit, the engines' pids."""

import json
import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import application, present
from penstock.connectors.process import identity
from penstock.connectors.process.records import ProcessRecord, Records
from penstock.connectors.prometheus.page import Page, Reading, parse
from penstock.domain.command_error import CommandError
from penstock.domain.ids import VersionId, WorkerId
from penstock.local import state
from penstock.settings import load
from penstock.supervision import exposition
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics
from penstock.views import status as views

app = application()

SINCE = 1_800_000_000.0
VERSION = "toy@0123456789ab"


@pytest.mark.parametrize("is_paused", [False, True])
def test_batch_work_is_a_line_and_its_pause_stands_in_it(is_paused: bool) -> None:
    """With the command that ends it; a platform without jobs has no line."""
    (told,) = views.batch_work({"is_paused": is_paused, "requests": 1200, "batches": 2})
    assert "1,200 requests and 2 batches" in told
    assert ("`penstock jobs resume`" in told) == is_paused
    assert list(views.batch_work({"is_paused": False, "requests": 0, "batches": 0})) == []


def test_tenants_whose_pools_are_empty_are_told() -> None:
    """With the pools that their plans name, since one may be a typing error; a few of many."""
    outside = [{"tenant": f"t{n}", "pools": ["nights", "spt"]} for n in range(20)]
    (told,) = views.batch_work({"is_paused": False, "requests": 0, "batches": 0, "outside": outside})
    assert "t0 (nights, spt), t1" in told
    assert told.endswith("and 12 more")


def page() -> bytes:
    """Return the page of a controller that leads and of a gateway with two open circuits."""
    metrics = Metrics()
    metrics.gauge(names.IS_LEADER).set(1)
    opened = metrics.gauge(names.BREAKER_OPENED)
    opened.labels("version", VERSION, "", "").set(SINCE + 5)
    opened.labels("worker", VERSION, "w1", "").set(SINCE)
    return metrics.exposition()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a home with a controller that leads, a worker and its engine."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(page())

        def log_message(self, *_: object) -> None: ...

    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    load.cache_clear()
    server = HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    run, own = tmp_path / "run", os.getpid()
    controller = subprocess.Popen(["sleep", "120"])
    (run / "engines").mkdir(parents=True, exist_ok=True)
    (run / "engines/w1.pid").write_text(str(own))
    state.write(run, state.UpState(pid=own, processes={"controller": controller.pid}))
    address = exposition.address_file(run, controller.pid)
    address.parent.mkdir()
    address.write_text(f"http://127.0.0.1:{server.server_port}")
    record = ProcessRecord(
        worker=WorkerId("w1"), version=VersionId(VERSION), pid=own, start=identity.started(own), started_at=SINCE
    )
    Records(run / "workers").write(record)
    yield tmp_path
    controller.kill()
    controller.wait()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.usefixtures("room", "home")
def test_the_first_screen_names_leader_circuits_and_engines() -> None:
    """Who leads, what is open since when, and which process is which engine: before any table of the controller."""
    done = CliRunner().invoke(app, ["status"])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].startswith(f"Circuit open: worker w1 of {VERSION}, since 2027-01-15 08:00:00 (")
    assert lines[1].startswith(f"Circuit open: version {VERSION}, since 2027-01-15 08:00:05 (")
    assert re.fullmatch(r"Leader: controller \(pid \d+\)", lines[2])
    (engine,) = [line for line in lines if line.startswith("engine w1")]
    assert str(os.getpid()) in engine


@pytest.mark.usefixtures("room", "home")
def test_programs_get_the_same_as_json() -> None:
    """One object has what is not well, the processes, and the controller's answers."""
    done = CliRunner().invoke(app, ["status", "--json"])
    told = json.loads(done.stdout)
    assert set(told) == {"present", "processes", "workers", "models", "controller"}
    assert [one["since"] for one in told["present"]["circuits"]] == [SINCE, SINCE + 5]
    pids = {one["name"]: one["pid"] for one in told["processes"]}
    assert told["present"]["leader"] == f"controller (pid {pids['controller']})"
    assert list(pids) == ["supervisor", "controller", "worker w1", "engine w1"]
    assert told["controller"]["leader_name"] == ""


@pytest.mark.usefixtures("home")
def test_without_a_controller_programs_are_told_so_beside_the_rest() -> None:
    """The processes' own pages are still told, with the reason, and the exit code says that something is missing."""
    done = CliRunner().invoke(app, ["status", "--json"])
    told = json.loads(done.stdout.splitlines()[0])
    assert done.exit_code == 1
    assert told["present"]["circuits"]
    assert "The controller of this home is not running." in told["error"]


@pytest.mark.usefixtures("home")
def test_a_controller_that_stands_still_holds_the_screen_for_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped process takes connections and never answers; the rest of the screen comes all the same."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("PENSTOCK_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("PENSTOCK_KEY", "psk_any")
        load.cache_clear()
        began = time.monotonic()
        done = CliRunner().invoke(app, ["status", "--json"])
    assert time.monotonic() - began < 4 * present.ANSWER_S
    assert done.exit_code == 1
    assert json.loads(done.stdout.splitlines()[0])["present"]["circuits"]


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ({"leader": True, "leader_name": "host 7"}, "controller host 7 leads at https://c"),
        ({"leader": False, "leader_name": "host 7"}, "controller stands by (host 7 leads) at https://c"),
        (
            {"leader": False, "leader_name": ""},
            "controller stands by (none leads, or the database is away) at https://c",
        ),
    ],
)
def test_a_stand_by_names_the_leader(found: dict[str, object], says: str) -> None:
    """It said "another one does", and not which."""
    told = {"table": 1, "table_made_at": time.time(), "failed_ticks": 0, **found}
    assert views.controller(told, "https://c")[0] == says


def test_many_circuits_leave_room_for_the_rest() -> None:
    """Of a lost zone of thirty workers the oldest are named, and the others counted."""
    circuits = tuple(
        views.OpenCircuit(level="worker", version=VERSION, worker=f"w{i}", zone="", since=SINCE + i) for i in range(30)
    )
    found = views.Present(
        at=SINCE + 60, leader="", circuits=circuits, alerts=(), stores_away=(), disks_full=(), loudest="", lost=""
    )
    told = [str(one) for one in views.present(found)]
    assert told[0] == f"Circuit open: worker w0 of {VERSION}, since 2027-01-15 08:00:00 (60 s)"
    assert told[-1] == "Circuits open: 22 more"


def test_a_prometheus_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alerts that can't be asked for are no silence."""

    class Away:
        def instant(self, query: str) -> None:
            raise CommandError(query)

    monkeypatch.setattr("penstock.cli.present.observed.prometheus", lambda _: Away())
    assert present._of_prometheus(load()) == (("unknown, as Prometheus does not answer",), "")


def test_a_full_disk_and_a_lost_limits_store_are_told_first() -> None:
    """Both refuse every request or those with a budget, and no table of the controller shows them."""

    def page_of(reach: float, full: float, used: float, instance: str) -> Page:
        metrics = Metrics()
        metrics.gauge(names.LIMITS_REACH).labels("shared").set(reach)
        metrics.gauge(names.LIMITS_REACH).labels("alone").set(1.0 - reach)
        metrics.gauge(names.SPOOL_FULL).set(full)
        metrics.gauge(names.DISK_USED_RATIO).set(used)
        return parse(metrics.exposition().decode(), instance)

    pages = {"a": page_of(0.0, 1.0, 1.0, "g1"), "b": page_of(1.0, 0.0, 0.98, "g2"), "c": page_of(1.0, 0.0, 0.5, "g3")}
    found = Reading(at=0.0, pages=pages)
    assert present._stores_away(found) == ("g1",)
    assert [one.split()[0] for one in present._disks_full(found)] == ["g1", "g2"]
    now = views.Present(
        at=SINCE,
        leader="",
        circuits=(),
        alerts=(),
        stores_away=present._stores_away(found),
        disks_full=present._disks_full(found),
        loudest="",
        lost="",
    )
    told = [str(one) for one in views.present(now)]
    assert told[0].startswith("Limits store: not reached by g1;")
    assert told[1].startswith("Disk full: g1 refuses requests, as its disk takes no more, g2 uses 98.0% of its disk")
