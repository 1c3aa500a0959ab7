"""A real platform whose SmolLM2 is scaled within bounds, asked by the official SDK, with a timeline of its numbers."""

import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx
import httpx2
import openai

from penstock.telemetry import names
from tests.support.patience import patient
from tests.support.platforms.local import Platform
from tests.support.platforms.readings import reading

MODEL = "smollm2"
QUESTION = "Tell me a story of the sea."
HOLD_S = 300.0
TOKENS = 64
UNHURRIED = {"probe_timeout_s": "60", "lease_s": "15", "hold_s": f"{HOLD_S:g}"}
DEADLINE = {"x-penstock-deadline-ms": f"{1e3 * HOLD_S:.0f}"}
LOOK_S = 0.1


@dataclass(frozen=True, kw_only=True)
class Said:
    """One answer, as the SDK heard it; ``status`` is 0 if its connection broke."""

    status: int = 200
    tokens: int = 0
    is_whole: bool = False
    sent_at: float = 0.0
    first_s: float = 0.0
    retry_after: str = ""


@dataclass(kw_only=True)
class ScaledSite:
    platform: Platform
    version: str = ""

    def admin(self, path: str, body: Mapping[str, object] | None = None) -> Any:  # noqa: ANN401  JSON
        return self.platform.act("GET" if body is None else "PUT", path, body)

    @property
    def states(self) -> list[str]:
        """Return the states of the version's workers, as the table in force has them."""
        found = {one["id"]: one["workers"] for one in self.admin("/table")["versions"]}
        return sorted(worker["state"] for worker in found[self.version])

    @property
    def changes(self) -> list[tuple[str, int, int]]:
        """Return the changes of its number since the controller leads, oldest first."""
        return [(one["act"], one["before"], one["after"]) for one in self.records]

    @property
    def records(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.admin(f"/scale/history?version={self.version}")["records"]
        return found[::-1]

    @property
    def starts_s(self) -> dict[str, float]:
        """Return the seconds of each ready worker's last start or wake."""
        workers = [one for one in self.admin("/workers")["workers"] if one["state"] == "ready"]
        return {one["id"]: sum(phase["seconds"] for phase in one["phases"]) for one in workers}

    @property
    def started(self) -> int:
        """Return the worker processes that were ever started."""
        return len(list((self.platform.home / "logs").glob("worker-*.log")))

    @property
    def held(self) -> tuple[float, float]:
        """Return the requests that the gateway holds, and those that it has admitted and not settled."""
        url = self.platform.metrics_url
        return reading(url, names.HELD_REQUESTS.name, {}), reading(url, names.IN_FLIGHT.name, {})

    def deploy(self, workers: int) -> None:
        self.admin(f"/deployments/{self.version}", {"replicas": workers})

    def ask(self, tokens: int = TOKENS, *, stream: bool = True, patience_s: float = 2 * HOLD_S) -> Said:
        """Ask for an answer of this length, without a retry."""
        began = time.time()
        with openai.OpenAI(
            base_url=f"{self.platform.url}/v1",
            api_key=self.platform.demo_key,
            max_retries=0,
            timeout=patience_s,
            http_client=openai.DefaultHttpxClient(trust_env=False, timeout=patience_s),
        ) as client:
            try:
                return self._whole(client, tokens, began) if not stream else self._streamed(client, tokens, began)
            except openai.APIStatusError as error:
                wait = error.response.headers.get("retry-after", "")
                return Said(status=error.status_code, sent_at=began, retry_after=wait)
            except (openai.APIError, httpx2.HTTPError):
                return Said(status=0, sent_at=began)

    def _whole(self, client: openai.OpenAI, tokens: int, began: float) -> Said:
        answer = client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": QUESTION}],
            max_tokens=tokens,
            extra_body={"ignore_eos": True},
            extra_headers=DEADLINE,
        )
        made = answer.usage.completion_tokens if answer.usage else 0
        return Said(tokens=made, is_whole=made == tokens, sent_at=began, first_s=time.time() - began)

    def _streamed(self, client: openai.OpenAI, tokens: int, began: float) -> Said:
        first_s, made = 0.0, 0
        with client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": QUESTION}],
            max_tokens=tokens,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"ignore_eos": True},
            extra_headers=DEADLINE,
        ) as events:
            for event in events:
                if event.choices and event.choices[0].delta.content:
                    first_s = first_s or time.time() - began
                if event.usage:
                    made = event.usage.completion_tokens
        return Said(tokens=made, is_whole=made == tokens, sent_at=began, first_s=first_s)


@contextmanager
def scaled_site(home: Path, settings: Mapping[str, str], bounds: str) -> Iterator[ScaledSite]:
    """Run SmolLM2 alone, scaled within these bounds."""
    home.mkdir(parents=True, exist_ok=True)
    file = home / "scale.yaml"
    file.write_text(f"scale:\n  - {{versions: 'smollm2*', {bounds}}}\n")
    with Platform(home=home, models=MODEL, settings={**UNHURRIED, **settings, "scale_file": str(file)}) as platform:
        site = ScaledSite(platform=platform)
        routes = site.admin("/table")["routes"]
        site.version = next(one["shares"][0]["version"] for one in routes if one["alias"] == MODEL)
        yield site


@dataclass
class Asking:
    """Streams at a rate, each on a thread of its own, until the block ends; then all have ended."""

    site: ScaledSite
    per_s: float
    tokens: int = TOKENS
    asked: list[Future[Said]] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._pool = ThreadPoolExecutor(512)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._pool.shutdown()

    @property
    def said(self) -> list[Said]:
        return [one.result() for one in self.asked]

    def _run(self) -> None:
        while not self._stop.wait(1.0 / self.per_s):
            self.asked.append(self._pool.submit(self.site.ask, self.tokens))


@dataclass
class Timeline:
    """The changes of the workers' states while the block runs, in Unix seconds; while no controller answers, none."""

    site: ScaledSite
    seen: list[tuple[float, list[str]]] = field(default_factory=list)
    began: float = field(default_factory=time.time)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def first(self, states: list[str], after: float) -> float:
        """Return when these were the states for the first time after Unix second ``after``."""
        return next(at for at, seen in self.seen if at >= after and seen == states)

    def lines(self) -> Iterator[str]:
        """Yield states and decisions in the order of time, for people."""
        decided = [
            (one["at"], f"{one['act']} {one['before']} to {one['after']}, wish {one['wish']}: {one['reason']}")
            for one in self.site.records
        ]
        for at, what in sorted([*((at, ", ".join(states)) for at, states in self.seen), *decided]):
            yield f"{at - self.began:8.1f} s  {what}"

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            try:
                states = self.site.states
            except (httpx.HTTPError, OSError, KeyError, ValueError):
                continue
            if not self.seen or self.seen[-1][1] != states:
                self.seen.append((time.time(), states))


def slowest(site: ScaledSite) -> float:
    """Return the seconds of the longest start or wake of the workers that are ready."""
    return patient(max(site.starts_s.values()))
