"""A platform that scales on real vLLM: one worker to two and back, and to none and back; no stream breaks."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from penstock.control.autoscaler.constants import IN_WINDOW_S
from tests.integration.conftest import HomeMaker
from tests.support.patience import patient, until
from tests.support.platforms.local import Platform

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(1800)]

QUESTION = "Tell me a story of the sea."
TOKENS = 64
IDLE_S = 15.0
DEADLINE = {"x-penstock-deadline-ms": "300000"}


@dataclass(frozen=True, kw_only=True)
class Said:
    """One answer: its tokens, its last event, and the seconds to its first."""

    status: int
    tokens: int
    is_whole: bool
    first_s: float


@dataclass(kw_only=True)
class ScaledSite:
    platform: Platform
    version: str

    def admin(self, path: str) -> Any:  # noqa: ANN401  JSON
        headers = {"authorization": f"Bearer {self.platform.admin_key}"}
        url = f"{self.platform.controller_url}/admin/v1{path}"
        return httpx.get(url, headers=headers, timeout=30, trust_env=False).json()

    @property
    def states(self) -> list[str]:
        """Return the states of the version's workers, as the table in force has them."""
        found = {one["id"]: one["workers"] for one in self.admin("/table")["versions"]}
        return sorted(worker["state"] for worker in found[self.version])

    @property
    def changes(self) -> list[tuple[str, int, int]]:
        """Return the changes of its number, oldest first."""
        records = self.admin(f"/scale/history?version={self.version}")["records"]
        return [(one["act"], one["before"], one["after"]) for one in reversed(records)]

    def stream(self, tokens: int = TOKENS) -> Said:
        """Ask for a streamed answer of this length, and read it to its end."""
        body = {
            "model": "smollm2",
            "messages": [{"role": "user", "content": QUESTION}],
            "max_tokens": tokens,
            "ignore_eos": True,
            "stream": True,
        }
        began, first_s, count, last = time.monotonic(), 0.0, 0, ""
        with (
            self.platform.http(timeout_s=patient(600)) as http,
            http.stream("POST", "/v1/chat/completions", json=body, headers=DEADLINE) as answer,
        ):
            if answer.status_code != httpx.codes.OK:
                return Said(status=answer.status_code, tokens=0, is_whole=False, first_s=0.0)
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    delta = json.loads(line.removeprefix("data: "))["choices"]
                    if delta and delta[0]["delta"].get("content"):
                        first_s = first_s or time.monotonic() - began
                        count += 1
                last = line or last
        return Said(status=200, tokens=count, is_whole=last == "data: [DONE]", first_s=first_s)

    def ask(self) -> Said:
        body = {"model": "smollm2", "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 8}
        began = time.monotonic()
        with self.platform.http(timeout_s=patient(300)) as http:
            answer = http.post("/v1/chat/completions", json=body, headers=DEADLINE)
        is_whole = answer.status_code == httpx.codes.OK
        return Said(status=answer.status_code, tokens=0, is_whole=is_whole, first_s=time.monotonic() - began)


def scaled(home: Path, settings: dict[str, str], bounds: str) -> Iterator[ScaledSite]:
    """Run SmolLM2 alone, scaled within these bounds."""
    home.mkdir(parents=True, exist_ok=True)
    file = home / "scale.yaml"
    file.write_text(f"scale:\n  - {{versions: 'smollm2*', {bounds}}}\n")
    ours = {**settings, "scale_file": str(file), "probe_timeout_s": "60", "lease_s": "15", "hold_s": "300"}
    with Platform(home=home, models="smollm2", settings=ours) as platform:
        made = ScaledSite(platform=platform, version="")
        routes = made.admin("/table")["routes"]
        made.version = next(one["shares"][0]["version"] for one in routes if one["alias"] == "smollm2")
        yield made


@pytest.fixture(scope="module")
def to_zero(new_home: HomeMaker, shared_settings: dict[str, str]) -> Iterator[ScaledSite]:
    yield from scaled(new_home("zero"), shared_settings, f"least: 0, most: 1, idle_s: {IDLE_S:g}")


@pytest.fixture(scope="module")
def ramped(new_home: HomeMaker, shared_settings: dict[str, str]) -> Iterator[ScaledSite]:
    yield from scaled(new_home("ramp"), shared_settings, "least: 1, most: 2")


def test_idle_to_none_and_back(to_zero: ScaledSite) -> None:
    """After its idle time no engine runs; eight requests at once are held and all answered by the one that wakes."""
    site = to_zero
    assert site.ask().is_whole
    began = time.monotonic()
    until("it sleeps", lambda: site.states == ["sleeping"], within_s=IDLE_S + 120)
    assert time.monotonic() - began >= IDLE_S - 1
    until("its engine has ended", lambda: not site.platform.pids("engine"), within_s=30)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(site.ask if number % 2 else site.stream) for number in range(8)]
        said = [one.result() for one in asked]
    print("first tokens after a wake, s:", sorted(round(one.first_s, 1) for one in said))  # noqa: T201
    assert [one.status for one in said] == [200] * 8
    assert all(one.is_whole for one in said)
    assert site.states == ["ready"]


class Ramp:
    """Streams at a rate, each on a thread of its own, until it is told to stop."""

    def __init__(self, site: ScaledSite) -> None:
        self._site, self._stop = site, threading.Event()
        self._pool = ThreadPoolExecutor(512)
        self.said: list[Future[Said]] = []
        self.per_s = 2.0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._pool.shutdown()

    def _run(self) -> None:
        while not self._stop.wait(1.0 / self.per_s):
            self.said.append(self._pool.submit(self._site.stream))


def test_one_two_one(ramped: ScaledSite) -> None:
    """A rate that one worker can't hold starts a second one; it goes after the window, and no stream breaks."""
    site = ramped
    site.platform.run("bench", "engine", site.version, "--minutes", "2", within_s=patient(400))
    before = len(site.platform.usage("demo"))
    with Ramp(site) as ramp:
        for _ in range(6):
            if site.changes:
                break
            time.sleep(15)
            ramp.per_s *= 2
        until("two are wanted", lambda: site.changes[:1] == [("scale_out", 1, 2)], within_s=60)
        decided = time.monotonic()
        until("two serve", lambda: site.states == ["ready", "ready"], within_s=240)
        print(f"the second worker serves {time.monotonic() - decided:.1f} s after the decision")  # noqa: T201
    quiet = time.monotonic()
    said = [one.result() for one in ramp.said]
    assert {(one.status, one.tokens > 0, one.is_whole) for one in said if one.status == 200} == {(200, True, True)}
    assert {one.status for one in said} <= {200, 429, 503}
    until("one is cordoned", lambda: "draining" in site.states or len(site.states) == 1, within_s=IN_WINDOW_S + 300)
    assert time.monotonic() - quiet >= IN_WINDOW_S - 30
    until("one is left", lambda: site.states == ["ready"], within_s=120)
    assert [change[1:] for change in site.changes] == [(1, 2), (2, 1)]
    answered = sum(one.status == 200 for one in said)
    until("the ledger has them", lambda: len(site.platform.usage("demo")) - before >= answered, within_s=60)
