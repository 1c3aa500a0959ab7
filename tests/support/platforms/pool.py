"""A real platform with a pool of two slots for three models: SmolLM2 twice, as two versions, and MiniLM."""

import json
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.support.engines.likeness import ALTERNATIVES, Token, streamed
from tests.support.patience import patient, until
from tests.support.platforms.local import Platform

POOL_BYTES = 1_150_000_000
"""Two SmolLM2 with their KV caches, or one with MiniLM; not all three."""
PRICE, LICENCE = "0.02/0.005/0.06", "Apache-2.0"
QUESTION = "What is the capital of Japan?"
SECOND = "smollm2-second"
HOLD_S = 300.0
"""How long a gateway holds a request here at most: what is tried is who wakes, at whatever pace engines start."""
UNHURRIED = {"hold_s": f"{HOLD_S:g}", "probe_timeout_s": "60", "lease_s": "15"}
"""Settings with which no engine is taken for hung, and no worker for lost, because the machine has no time for it."""
STAYS = {"x-penstock-deadline-ms": f"{1e3 * HOLD_S:.0f}"}
"""What callers say who wait for so long: no tier's queue timeout sends them away."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    status: int
    body: Mapping[str, Any]
    seconds: float
    retry_after_s: str = ""

    @property
    def is_ok(self) -> bool:
        return self.status == httpx.codes.OK

    @property
    def text(self) -> str:
        return str(self.body["choices"][0]["message"]["content"])

    @property
    def wake_s(self) -> float:
        """The time that it was held for a wake; 0 without one."""
        return float(self.body["penstock"]["stages_ms"].get("wake", 0.0)) / 1e3


@dataclass(kw_only=True)
class PoolSite:
    """The platform, and its versions by the names that callers use."""

    platform: Platform
    versions: dict[str, str] = field(default_factory=dict)

    def prepare(self, source: Path) -> None:
        """Register the second version of SmolLM2, which has other engine settings, and wait until it was proven."""
        with tempfile.TemporaryDirectory(prefix="penstock-second-", dir=self.platform.home) as folder:
            shutil.copytree(source, Path(folder) / "model")
            golden = Path(folder) / "golden.json"
            golden.write_text(json.dumps([{"prompt": QUESTION, "expect": "Tokyo"}]))
            pushed = self.platform.run(
                *("models", "push", str(Path(folder) / "model"), "--name", SECOND, "--price", PRICE),
                *("--licence", LICENCE, "--golden", str(golden), "--engine", "max_num_seqs=8", "--workers", "1"),
                within_s=patient(120),
            )
        self.versions[SECOND] = pushed.stdout.strip().splitlines()[-1]
        self.platform.run("aliases", "set", SECOND, f"{self.versions[SECOND]}=100")
        table = self.admin("/table")
        self.versions |= {route["alias"]: route["shares"][0]["version"] for route in table["routes"]}
        until("every version was proven once", self._is_proven, within_s=120)

    def _is_proven(self) -> bool:
        return {"ready", "sleeping"} >= set(self.states.values()) and len(self.states) == len(self.versions)

    def admin(self, path: str) -> Any:  # noqa: ANN401  JSON
        return self.platform.act("GET", path)

    @property
    def states(self) -> dict[str, str]:
        """Return the state of each model's worker, as the table in force has it."""
        by_version = {one["id"]: [w["state"] for w in one["workers"]] for one in self.admin("/table")["versions"]}
        found = {name: by_version.get(version, []) for name, version in self.versions.items()}
        return {name: states[0] for name, states in found.items() if states}

    def state(self, model: str) -> str:
        return self.states.get(model, "")

    def pid(self, model: str) -> int:
        """Return the process id of the agent of its worker."""
        for file in (self.platform.home / "run/workers").glob("*.json"):
            with suppress(OSError, ValueError):
                record = json.loads(file.read_text())
                if record["version"] == self.versions[model] and psutil.pid_exists(record["pid"]):
                    return int(record["pid"])
        return 0

    def kill(self, model: str) -> None:
        """Kill -9 its worker's agent; its engine dies with it."""
        psutil.Process(self.pid(model)).send_signal(signal.SIGKILL)

    def ask(self, model: str, *, max_tokens: int = 8, timeout_s: float = 90.0) -> Answered:
        """Ask a model that writes, or embed a sentence; ``timeout_s`` is the client's own patience."""
        began = time.monotonic()
        with self.platform.http(timeout_s=patient(timeout_s)) as http:
            if model == "minilm":
                answer = http.post("/v1/embeddings", json={"model": model, "input": "A kitten sleeps."}, headers=STAYS)
            else:
                messages = [{"role": "user", "content": QUESTION}]
                body = {"model": model, "messages": messages, "max_tokens": max_tokens, "temperature": 0}
                answer = http.post("/v1/chat/completions", json=body, headers=STAYS)
        return Answered(
            status=answer.status_code,
            body=answer.json(),
            seconds=time.monotonic() - began,
            retry_after_s=answer.headers.get("retry-after", ""),
        )

    @contextmanager
    def stream(self, model: str, tokens: int) -> Iterator[Iterator[Token]]:
        """Yield the tokens of a streamed, greedy answer of exactly this length."""
        body = {
            "model": model,
            "messages": [{"role": "user", "content": "Tell me a long story of the sea."}],
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            **ALTERNATIVES,
        }
        with (
            self.platform.http(timeout_s=patient(300)) as http,
            http.stream("POST", "/v1/chat/completions", json=body) as answer,
        ):
            assert answer.status_code == 200, answer.read()
            yield streamed(answer.iter_lines())


@contextmanager
def pool_site(home: Path, source: Path, settings: Mapping[str, str]) -> Iterator[PoolSite]:
    """Run it; ``source`` is SmolLM2's folder, ``settings`` are the platform's own beside the pool's size."""
    with Platform(home=home, settings={**settings, "pool_bytes": str(POOL_BYTES), **UNHURRIED}) as platform:
        made = PoolSite(platform=platform)
        made.prepare(source)
        yield made
