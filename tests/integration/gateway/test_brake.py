"""The gateway's own brake, on real processes: a candidate's only worker dies while controller and database are away."""

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from penstock.domain.fleet.table import Route, RoutingTable, Share, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import Alias, VersionId, WorkerId
from tests.support.gateways.process import GatewayProcess, Home, prepare, started
from tests.support.patience import until

pytestmark = pytest.mark.integration

USERS = 8
OLD, NEW = VersionId("toy@0123456789ab"), VersionId("toy@ba9876543210")
CHAT = {"model": "toy", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5}


class Engine:
    """A stub engine in a process of its own, at one port all its lives."""

    def __init__(self) -> None:
        self.port, self.url = 0, ""
        self.begin()

    def begin(self) -> None:
        command = [sys.executable, "-m", "tests.support.engines.stub", "--step-ms", "10", "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = json.loads(self.process.stdout.readline())["url"]
        self.port = int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def engines() -> Iterator[tuple[Engine, Engine]]:
    both = (Engine(), Engine())
    try:
        yield both
    finally:
        for one in both:
            one.kill()


def share(home: Home, candidate: str) -> None:
    """Let the last good table be one of a rollout: half of the alias is a candidate's, with one worker."""
    kept = home.root / "run/gateway/table.json"
    table = msgspec.json.decode(kept.read_bytes(), type=RoutingTable)
    (old,) = table.versions
    worker = WorkerEntry(id=WorkerId("w-new"), url=candidate, state=WorkerState.READY)
    new = replace(old, id=NEW, digest="ba9876543210" + "0" * 52, workers=(worker,))
    shares = (Share(version=old.id, weight=5_000), Share(version=NEW, weight=5_000))
    route = Route(alias=Alias("toy"), shares=shares, fallback=old.id)
    kept.write_bytes(msgspec.json.encode(replace(table, routes=(route,), versions=(old, new))))


class End(NamedTuple):
    user: int
    sent_at: float
    at: float
    status: int
    version: str


@dataclass
class Crowd:
    """Users with one request after the other, all at a time, until it is over."""

    gateway: GatewayProcess
    ends: list[End] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def user(self, number: int) -> None:
        with self.gateway.http() as http:
            while not self.over.is_set():
                sent_at = time.monotonic()
                answer = http.post("/v1/chat/completions", json={**CHAT, "user": f"u{number}"})
                version = answer.headers.get("x-penstock-version", "")
                self.ends.append(End(number, sent_at, time.monotonic(), answer.status_code, version))

    def answered(self, version: str, since: float) -> list[End]:
        """Return what this version has answered of what was sent since then."""
        return [end for end in list(self.ends) if end.sent_at > since and (end.status, end.version) == (200, version)]

    def fallbacks(self) -> float:
        """Return how many the gateway has counted."""
        (line,) = [one for one in self.gateway.metrics.splitlines() if one.startswith("penstock_gateway_fallbacks_t")]
        return float(line.split()[1])


@contextmanager
def crowd(gateway: GatewayProcess) -> Iterator[Crowd]:
    """Yield users that ask all the time."""
    made = Crowd(gateway)
    threads = [threading.Thread(target=made.user, args=(number,)) for number in range(USERS)]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        made.over.set()
        for thread in threads:
            thread.join()


def test_a_dead_candidates_requests_go_to_the_incumbent_until_it_is_well(tmp_path: Path) -> None:
    """Only requests under way at its only worker's death fail, and all go to it again once it is back."""
    with engines() as (old, new):
        home = prepare(tmp_path, old.url)
        share(home, new.url)
        with started(home) as gateway, crowd(gateway) as asking:
            until("both versions answer", lambda: min(len(asking.answered(one, 0.0)) for one in (OLD, NEW)) > 20)
            theirs = {end.user for end in asking.answered(NEW, 0.0)}
            killed_at = time.monotonic()
            new.kill()
            taken = partial(asking.answered, OLD, killed_at)
            until("the incumbent has theirs", lambda: len([end for end in taken() if end.user in theirs]) > 60)
            assert asking.fallbacks() > 60
            back_at = time.monotonic()
            new.begin()
            until("the candidate has its own again", lambda: len(asking.answered(NEW, back_at)) > 20)
    assert 0 < len(theirs) < USERS
    braked_at = min(end.sent_at for end in taken() if end.user in theirs)
    failed = Counter(end.user for end in asking.ends if end.status != 200)
    assert failed.keys() <= theirs
    assert set(failed.values()) <= {1}
    later = [end for end in asking.ends if end.sent_at > braked_at and end.at < back_at]
    assert {(end.status, end.version) for end in later} == {(200, OLD)}
