"""A worker without an engine: it reports like a real one, sleeps and wakes as ordered, and drains on SIGTERM.

Run by the controller under test.
"""

import json
import os
import signal
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from penstock.domain.fleet.worker import VERSION_HEADER, WORKER_HEADER

EVERY_S = 0.1
LOADING_S = 0.3
STARTING = ("loading", "waking")


def main(home: Path, version: str, worker: str) -> None:
    _, bearer = (home / f"run/workers/{worker}.key").read_text().split()
    went: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: went.append(number))
    state, since = "loading", time.monotonic()
    while not went:
        desired = "serve"
        with suppress(OSError):
            desired = report(home, bearer, version, worker, state)
        if desired == "drain":
            break
        after = follows(state, desired, time.monotonic() - since)
        if after == state:
            time.sleep(EVERY_S)
        else:
            state, since = after, time.monotonic()
    with suppress(OSError):
        report(home, bearer, version, worker, "stopped")


def follows(state: str, desired: str, seconds: float) -> str:
    """Return the state after this one, after ``seconds`` in it."""
    if state in STARTING:
        return "ready" if seconds > LOADING_S else state
    if desired == "sleep":
        return "sleeping"
    return "waking" if state == "sleeping" else state


def report(home: Path, bearer: str, version: str, worker: str, state: str) -> str:
    """Send one heartbeat and return what is desired."""
    url = (home / "run" / "controller.addr").read_text().strip()
    body: dict[str, object] = {
        "worker": worker,
        "version": version,
        "state": state,
        "url": stands_for(home, version),
        "pid": os.getpid(),
        "holds_memory": state != "sleeping",
        "restart_s": LOADING_S,
        "adapters": held_by(home, version),
    }
    request = urllib.request.Request(
        f"{url}/internal/workers/heartbeat",
        json.dumps(body).encode(),
        {
            "authorization": f"Bearer {bearer}",
            WORKER_HEADER: worker,
            VERSION_HEADER: version,
            "content-type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=1.0) as answer:
        return str(json.load(answer)["desired"])


def held_by(home: Path, version: str) -> list[str]:
    """Return the adapters that the test says a worker of this version holds."""
    with suppress(OSError, KeyError, ValueError):
        return list(json.loads((home / "adapters.json").read_text())[version])
    return []


def stands_for(home: Path, version: str) -> str:
    """Return the address that the test names for this version, else one without a listener."""
    with suppress(OSError, KeyError):
        return str(json.loads((home / "engines.json").read_text())[version])
    return "http://127.0.0.1:9"


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
