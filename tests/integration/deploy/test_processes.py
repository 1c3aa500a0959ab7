"""Every process starts by the contract alone, and says how it is."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping

import httpx
import pytest

from penstock.tls.identity import Role
from tests.support.platforms.deployed import CONTRACT, WITHIN_S, WORKER, Place, free_port

pytestmark = pytest.mark.integration


async def test_a_platform_starts_from_outside_settings_alone(place: Place) -> None:
    """Findings 3.2, 3.5, 3.16, U3: init, controller, gateway and worker run by the contract, and their probes tell."""
    await asyncio.to_thread(_whole, place)


def _whole(place: Place) -> None:
    assert place.start("init").wait(60) == 0, place.log("init")
    nowhere = f"https://127.0.0.1:{free_port()}"
    controller, gateway, runner = (place.start(name) for name in ("controller", "gateway", "runner"))
    place.answers("runner", "live", 200, runner)
    worker = place.start("worker", PENSTOCK_CONTROLLER_URL=nowhere)
    place.answers("controller", "live", 200, controller)
    assert place.answers("controller", "ready", 200, controller)["leader"]
    place.answers("gateway", "live", 200, gateway)
    ready = place.answers("gateway", "ready", 200, gateway)
    assert (ready["table"], ready["keys"]) == (1, 1)
    region = place.answers("gateway", "region", 503, gateway)
    assert region["status"] == "no worker of any alias could answer"
    place.answers("worker", "live", 200, worker)
    waiting = place.answers("worker", "ready", 503, worker)
    assert waiting["url"] == place.url("worker", "gate")
    _metrics(place)
    _public(place)
    _end(place, {"worker": worker})
    _reports(place)
    _end(place, {"runner": runner, "controller": controller, "gateway": gateway})
    assert list((place.root / "read-only").iterdir()) == []


def _metrics(place: Place) -> None:
    for name, process in CONTRACT.items():
        if process["metrics"]:
            page = process["metrics"]
            assert "penstock_" in httpx.get(place.url(name, page["port"]) + page["path"], trust_env=False).text


def _public(place: Place) -> None:
    """The callers' port has nothing of the private one."""
    for path, status in (("/metrics", 404), ("/readyz/region", 503), ("/admin/v1/keys", 404), ("/readyz", 200)):
        answer = httpx.get(place.url("gateway", "public") + path, trust_env=False)
        assert answer.status_code == status
        assert "table" not in answer.text


def _reports(place: Place) -> None:
    """The controller takes the worker's heartbeats: it drains one that serves what is not deployed."""
    assert place.start("worker").wait(WITHIN_S) == 0, place.log("worker")
    url = place.url("controller", "api") + "/admin/v1/workers"
    headers = {"authorization": f"Bearer {place.admin_key}"}
    answer = httpx.get(url, headers=headers, trust_env=False, verify=place.as_(Role.OPERATOR))
    assert [worker["id"] for worker in answer.json()["workers"]] == [WORKER]


def _end(place: Place, running: Mapping[str, "subprocess.Popen[bytes]"]) -> None:
    for name, process in running.items():
        process.send_signal(signal.SIGTERM)
        ending = CONTRACT[name]["ending"]
        assert process.wait(ending["beyond_s"] + WITHIN_S) == 0, place.log(name)
        assert "0" in ending["exits"]


def test_a_name_that_nobody_reads_ends_the_start(place: Place) -> None:
    """Finding 3.3: each process refuses a variable that is no setting, and names the nearest one."""
    started = {name: place.start(name, PENSTOCK_DATABSE_URL="x") for name in CONTRACT}
    for name, process in started.items():
        assert process.wait(WITHIN_S) == 1
        assert "PENSTOCK_DATABASE_URL" in place.log(name)


def test_a_secret_that_is_not_mounted_is_named(place: Place) -> None:
    """Finding 3.2: a file that is missing ends the start with its name and a remedy."""
    first = {name: process["secrets"][0]["setting"] for name, process in CONTRACT.items()}
    missing = str(place.root / "nowhere")
    started = {name: place.start(name, **{setting: missing}) for name, setting in first.items()}
    for name, process in started.items():
        assert process.wait(WITHIN_S) == 1, place.log(name)
        log = place.log(name)
        assert first[name] in log
        assert "Mount the file" in log


def test_a_private_port_that_somebody_has_ends_the_start(place: Place) -> None:
    """A client would take another program's answers for this process's; it only warned, and went on."""
    settings = {
        "gateway": "PENSTOCK_METRICS_PORT",
        "controller": "PENSTOCK_METRICS_PORT",
        "worker": "PENSTOCK_STATUS_PORT",
    }
    taken = {name: str(place.silent.getsockname()[1]) for name in settings}
    started = {name: place.start(name, **{settings[name]: port}) for name, port in taken.items()}
    for name, process in started.items():
        assert process.wait(WITHIN_S) == 1, place.log(name)
        told = " ".join(place.log(name).split())
        assert f"Port {taken[name]} on 127.0.0.1 is in use by another program" in told
        assert settings[name] in told
        assert "Traceback" not in told


def test_the_contract_leaves_nothing_to_this_machine() -> None:
    """The test's own environment gives no process a setting."""
    assert [name for name in os.environ if name.startswith("PENSTOCK_")] == []
