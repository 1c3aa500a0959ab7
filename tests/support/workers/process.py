"""One real worker process, a stand-in for its controller, and tickets for its gate."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import psutil

from penstock.domain.ids import RequestId, TenantId, VersionId, WorkerId
from penstock.domain.serving.ticket import HEADER, Ticket, binding_of, seal
from penstock.domain.tenancy.keys import worker_secret
from penstock.domain.tenancy.standing import Standing
from tests.support.patience import until

READY_WITHIN_S = 60.0
QUICK = {"probe_timeout_s": "2", "probe_every_s": "1", "heartbeat_s": "0.2", "drain_grace_s": "60"}
"""Settings of a worker whose watchdog is impatient."""

WorkerMaker = Callable[..., "WorkerProcess"]
Publisher = Callable[..., str]


class Controller:
    """Takes heartbeats and answers what ``desired`` says, with this ``status``."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []
        self.bearers: set[str] = set()
        self.desired, self.status = "serve", 200
        self.pinned: list[str] | None = None
        self.ahead: list[str] | None = None
        self.batch_slots: object = None
        controller = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                controller.bearers.add(self.headers["authorization"])
                controller.reports.append({"path": self.path, **json.loads(body)})
                names = ("pinned", "ahead", "batch_slots")
                sent = {name: getattr(controller, name) for name in names}
                told = {name: value for name, value in sent.items() if value is not None}
                answer = json.dumps({"desired": controller.desired, **told}).encode()
                self.send_response(controller.status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                with suppress(BrokenPipeError):  # the worker was killed
                    self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def states(self) -> list[str]:
        """Return the states reported so far, repetitions left out."""
        found: list[str] = []
        for report in list(self.reports):
            if not found or found[-1] != report["state"]:
                found.append(report["state"])
        return found


@dataclass(frozen=True, kw_only=True)
class TicketMaker:
    """What a ticket says; without a key it is sealed with the worker's own."""

    request: str = "r1"
    tenant: str = "acme"
    seconds: float = 60.0
    key: bytes = b""
    standing: Standing = Standing.PAID
    yields: bool = False
    inputs: int = 0
    """So many, to make vectors of; with 0 it is one prompt to generate from."""
    adapter: str = ""
    output_tokens: int = 64


@dataclass(kw_only=True)
class WorkerProcess:
    """A worker of ``version`` in ``home``; ``settings`` are ``PENSTOCK_*`` names in lower case without the prefix."""

    home: Path
    version: str
    id: str
    settings: Mapping[str, str]
    controller: Controller = field(default_factory=Controller)
    process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.controller.__enter__()
        named = {"home": str(self.home), "controller_url": self.controller.url, **self.settings}
        environment = {**os.environ, **{f"PENSTOCK_{name.upper()}": value for name, value in named.items()}}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "penstock.cli", "worker", self.version, "--id", self.id],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it at once; show its log if the test failed."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.controller.__exit__()
        if error is not None:
            sys.stdout.write(self.log.read_text())

    @property
    def log(self) -> Path:
        return self.home / f"{self.id}.log"

    @property
    def report(self) -> dict[str, Any]:
        """Return its last heartbeat, empty before the first."""
        return self.controller.reports[-1] if self.controller.reports else {}

    @property
    def state(self) -> str:
        """Return the state in its last heartbeat."""
        return str(self.report.get("state", ""))

    def reported(self, *states: str, since: int = 0, within_s: float = 10.0) -> dict[str, Any]:
        """Wait for a heartbeat with one of these states, and return it; the state may be over by now.

        ``since`` leaves out that many of the oldest heartbeats.
        """

        def found() -> list[dict[str, Any]]:
            return [report for report in list(self.controller.reports)[since:] if report["state"] in states]

        until(f"{' or '.join(states)} is reported", lambda: bool(found()), within_s=within_s)
        return found()[0]

    @property
    def engine_pid(self) -> int:
        """Return its engine's process id, 0 without one."""
        path = self.home / f"run/engines/{self.id}.pid"
        return int(path.read_text() or 0) if path.exists() else 0

    @property
    def pages(self) -> str:
        """Return the base URL of its status pages."""
        for line in self.log.read_text().splitlines():
            entry = json.loads(line)
            if entry["event"] == "worker_started":
                return f"http://127.0.0.1:{entry['port']}"
        raise AssertionError("it has not said where its pages are")

    def ready(self, *, within_s: float = READY_WITHIN_S) -> Self:
        assert self.process is not None
        process = self.process
        until(
            "the worker is ready or has ended",
            lambda: self.state == "ready" or process.poll() is not None,
            within_s=within_s,
        )
        assert self.state == "ready", self.log.read_text()
        return self

    def ended(self, *, within_s: float = 30.0) -> int:
        """Wait for its end and return the exit code."""
        assert self.process is not None
        return self.process.wait(within_s)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def sealed(
        self, path: str, body: Mapping[str, object], maker: TicketMaker | None = None
    ) -> tuple[bytes, dict[str, str]]:
        """Return the bytes of a gateway's request to this path, and its headers: good for one use."""
        maker, raw, now = maker or TicketMaker(), json.dumps(body).encode(), time.time()
        platform_key = bytes.fromhex((self.home / "platform.key").read_text())
        ticket = Ticket(
            request=RequestId(maker.request),
            tenant=TenantId(maker.tenant),
            standing=maker.standing,
            yields=maker.yields,
            weight=1,
            deadline_at=now + maker.seconds,
            prompt_tokens=8 * max(1, maker.inputs),
            expected_output_tokens=0 if maker.inputs else maker.output_tokens,
            adapter=VersionId(maker.adapter),
            prompts=max(1, maker.inputs),
            sequences=max(1, maker.inputs),
        )
        key = maker.key or worker_secret(platform_key, WorkerId(self.id))
        headers = {HEADER: seal(ticket, key, binding_of(path, raw), now), "content-type": "application/json"}
        return raw, headers

    def post(
        self, path: str, body: Mapping[str, object], maker: TicketMaker | None = None, *, timeout: float = 60.0
    ) -> httpx.Response:
        """Ask the way a gateway does; ``timeout`` is the client's own patience."""
        raw, headers = self.sealed(path, body, maker)
        return httpx.post(f"{self.report['url']}{path}", content=raw, headers=headers, timeout=timeout, trust_env=False)

    def complete(self, maker: TicketMaker | None = None) -> httpx.Response:
        body = {"model": self.version, "prompt": "The sea is", "max_tokens": 4, "temperature": 0}
        return self.post("/v1/completions", body, maker)

    @contextmanager
    def stream(self, max_tokens: int) -> Iterator[Iterator[str]]:
        """Yield the lines of a streamed completion of exactly this number of tokens."""
        body = {
            "model": self.version,
            "prompt": "The sea is",
            "max_tokens": max_tokens,
            "ignore_eos": True,
            "stream": True,
        }
        raw, headers = self.sealed("/v1/completions", body, TicketMaker(seconds=600))
        url = f"{self.report['url']}/v1/completions"
        with (
            httpx.Client(trust_env=False, timeout=60) as client,
            client.stream("POST", url, content=raw, headers=headers) as answer,
        ):
            assert answer.status_code == 200, answer.read()
            yield (line for line in answer.iter_lines() if line)

    def load(self) -> dict[str, float]:
        found: dict[str, float] = httpx.get(f"{self.report['url']}/penstock/load", trust_env=False).json()
        return found

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of the samples of this name that have these labels."""
        text = httpx.get(f"{self.pages}/metrics", trust_env=False, timeout=10).text
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        lines = (line for line in text.splitlines() if line.startswith((f"{name}{{", f"{name} ")))
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(want in line for want in wanted))


def group(leader: int) -> list[int]:
    """Return the living processes of this process group."""
    return [process.pid for process in psutil.process_iter() if _is_in(process, leader)]


def _is_in(process: psutil.Process, leader: int) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and os.getpgid(process.pid) == leader
    except (psutil.NoSuchProcess, ProcessLookupError):
        return False
