"""A real Alertmanager with our configuration: the webhook's content for the rollback, and the silenced alerts."""

import datetime as dt
import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock.slo import files
from penstock.slo.alertmanager import Receivers
from penstock.supervision import listening
from tests.support.monitoring import promtool
from tests.support.monitoring.webhook import Notice, notices

pytestmark = pytest.mark.observe
BEGAN = dt.datetime(2026, 11, 22, 18, 0, tzinfo=dt.UTC)
WITHIN_S = 20.0
BURN = {"alertname": "TtftBurn", "tier": "chat", "objective": "ttft"}
Messages = queue.Queue[Any]


@pytest.fixture
def rollback() -> Iterator[tuple[str, Messages]]:
    """Yield the address of a listener, and its received messages."""
    heard: Messages = queue.Queue()

    class Listener(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.put(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Listener)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook", heard
    server.shutdown()
    server.server_close()
    thread.join()


@contextmanager
def alertmanager(folder: Path, receivers: Receivers) -> Iterator[httpx.Client]:
    """Yield a client of an Alertmanager with our configuration."""
    config = folder / "alertmanager.yaml"
    config.write_text(files.alertmanager(receivers))
    with listening.bind("127.0.0.1", 0) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    command = [promtool.program("prometheus-alertmanager"), f"--config.file={config}", f"--storage.path={folder}"]
    command += [f"--web.listen-address={place}", "--cluster.listen-address=", "--log.level=error"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with httpx.Client(base_url=f"http://{place}/api/v2", trust_env=False) as client:
            eventually(lambda: is_up(client))
            yield client
    finally:
        process.terminate()
        process.wait(WITHIN_S)


def is_up(client: httpx.Client) -> bool:
    try:
        return client.get("/status").is_success
    except httpx.TransportError:
        return False


def eventually(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def tell(client: httpx.Client, *alerts: dict[str, str], ended: bool = False) -> None:
    ends = {"endsAt": (BEGAN + dt.timedelta(minutes=5)).isoformat()} if ended else {}
    told = [{"labels": labels, "startsAt": BEGAN.isoformat(), **ends} for labels in alerts]
    client.post("/alerts", json=told).raise_for_status()


def next_notice(heard: Messages) -> Notice:
    (notice,) = notices(heard.get(timeout=WITHIN_S + 10))
    return notice


def test_the_rollback_is_told_of_a_burning_promise_and_of_its_end(
    tmp_path: Path, rollback: tuple[str, Messages]
) -> None:
    """A real Alertmanager sends the contract's fields: the burning promise, its start and its end."""
    url, heard = rollback
    with alertmanager(tmp_path, Receivers(rollback=url)) as client:
        tell(client, BURN | {"severity": "page", "window": "1h"}, {"alertname": "LimitsStoreAway", "severity": "page"})
        began = next_notice(heard)
        assert (began.alert, began.tier, began.objective, began.window) == ("TtftBurn", "chat", "ttft", "1h")
        assert (began.is_firing, began.began_at) == (True, BEGAN.timestamp())
        tell(client, BURN | {"severity": "page", "window": "1h"}, ended=True)
        ended = next_notice(heard)
        assert (ended.is_firing, ended.fingerprint) == (False, began.fingerprint)
    assert heard.empty()


CAUSES = ("DatabaseAway", "ControllerAway", "RoutingTableStale", "LedgerBehind")
"""All of one database; the table's age is told beside it: it says that revoked keys still work."""


def test_a_page_silences_its_own_ticket_and_a_cause_no_promise(tmp_path: Path) -> None:
    """One promise is told once, and however many causes are known, a burning promise is told."""
    alerts = [
        BURN | {"severity": "page", "window": "1h"},
        BURN | {"severity": "ticket", "window": "1d"},
        BURN | {"severity": "ticket", "window": "1d", "tier": "standard"},
        *({"alertname": name, "severity": "page"} for name in CAUSES),
    ]
    with alertmanager(tmp_path, Receivers()) as client:
        tell(client, *alerts)

        def silenced() -> set[tuple[str, ...]]:
            found = client.get("/alerts", params={"inhibited": "true"}).json()
            names = ("alertname", "tier", "severity")
            quiet = [one["labels"] for one in found if one["status"]["inhibitedBy"]]
            return {tuple(labels.get(name, "") for name in names) for labels in quiet}

        expected = {("TtftBurn", "chat", "ticket"), ("ControllerAway", "", "page"), ("LedgerBehind", "", "page")}
        eventually(lambda: silenced() == expected)
