"""Processes started exactly as the contract says: its command, its settings, its files, and nothing else."""

import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.tenancy.keys import worker_bearer, worker_secret
from penstock.tls.identity import Role
from tests.support import tree
from tests.support.tls.certificates import Issuer, variables
from tests.support.tls.processes import attacker

CONTRACT = json.loads((tree.ROOT / "infra/contract.json").read_text())["processes"]
KEY, PEPPER = "ab" * 32, "cd" * 32
VERSION, WORKER = VersionId("m@0123456789ab"), WorkerId("w-1")
WITHIN_S = 40.0
MUTUAL = {("controller", "api"), ("worker", "gate")}
"""Ports that show a certificate and ask for one."""
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "eu-west-1"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@dataclass
class Place:
    """What a deployment gives: secrets by name, servers by what they are called, ports by process and name."""

    root: Path
    dsn: str
    silent: socket.socket
    """A server that takes connections and says nothing: a slow store."""
    ports: dict[tuple[str, str], int] = field(default_factory=dict)
    running: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def url(self, process: str, port: str) -> str:
        """Return the address of a process's port here; ports for other processes have certificates."""
        scheme = "https" if (process, port) in MUTUAL else "http"
        return f"{scheme}://127.0.0.1:{self.port(process, port)}"

    @property
    def issuer(self) -> Issuer:
        return _issuer(self.root)

    def as_(self, role: Role) -> ssl.SSLContext:
        """Return TLS with a certificate of this role."""
        return attacker(self.issuer, f"as-{role}", role=role)

    def port(self, process: str, port: str) -> int:
        return self.ports.setdefault((process, port), free_port())

    def environment(self, name: str) -> dict[str, str]:
        """Return the variables of one container, from the contract's words alone."""
        process = CONTRACT[name]
        given = {port["setting"]: str(self.port(name, port["name"])) for port in process["ports"]}
        for folder in process["folders"]:
            if folder["setting"]:
                given[folder["setting"]] = str(self.folder(name, folder["name"], folder["path"]))
        for secret in process["secrets"]:
            if (file := self.root / "secrets" / secret["name"]).exists():
                given[secret["setting"]] = str(file)
        if own := process["certificate"]:
            given |= variables(self.issuer.files(own["role"]))
        plain = {"PENSTOCK_HOST": "127.0.0.1", "PENSTOCK_METRICS_HOST": "127.0.0.1", "PENSTOCK_ADVERTISE": "127.0.0.1"}
        calls = {
            "PENSTOCK_DATABASE_URL": self.dsn,
            "PENSTOCK_CONTROLLER_URL": self.url("controller", "api"),
            "PENSTOCK_ARTIFACT_STORE": "s3://models/of-nobody",
            "PENSTOCK_ARTIFACT_ENDPOINT": f"http://127.0.0.1:{self.silent.getsockname()[1]}",
            "PENSTOCK_PAYLOADS_URL": "s3://payloads/of-nobody",
            "PENSTOCK_PAYLOADS_ENDPOINT": f"http://127.0.0.1:{self.silent.getsockname()[1]}",
            "PENSTOCK_LIMITS_URL": "redis://127.0.0.1:1/0",
            "PENSTOCK_ANSWERS_URL": "redis://127.0.0.1:1/1",
        }
        given |= {f"PENSTOCK_{call['to'].upper()}_USER": call["role"] for call in process["calls"] if call["role"]}
        known = {setting["name"] for setting in process["settings"]}
        given |= {key: value for key, value in {**plain, **calls}.items() if key in known}
        missing = set(process["needed"]) - set(given)
        assert missing == set(), "the contract names something that it does not say how to give"
        return given

    def folder(self, process: str, name: str, path: str) -> Path:
        found = self.root / process / name.replace(" ", "-") / Path(path).name
        (found.parent if found.suffix else found).mkdir(parents=True, exist_ok=True)
        return found

    def start(self, name: str, **more: str) -> "subprocess.Popen[bytes]":
        """Start a container's command in an unwritable folder, without a HOME."""
        arguments = {"VERSION": VERSION, "WORKER": WORKER}
        program, *rest = (part.format(**arguments) for part in CONTRACT[name]["command"])
        assert program == "penstock"
        with (self.root / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "penstock.cli", *rest],
                env={**CREDENTIALS, **self.environment(name), **more},
                cwd=self.root / "read-only",
                stdout=log,
                stderr=log,
            )
        self.running.append(process)
        return process

    def log(self, name: str) -> str:
        return (self.root / f"{name}.log").read_text()

    def answers(self, name: str, probe: str, status: int, process: "subprocess.Popen[bytes]") -> dict[str, Any]:
        """Wait until a probe answers so, and return what it says."""
        asked = CONTRACT[name]["probes"][probe]
        url, until = self.url(name, asked["port"]) + asked["path"], time.monotonic() + WITHIN_S
        seen = "nothing"
        while time.monotonic() < until and process.poll() is None:
            try:
                answer = httpx.get(url, trust_env=False, timeout=asked["within_s"])
            except httpx.HTTPError as error:
                seen = repr(error)
            else:
                if answer.status_code == status:
                    is_json = answer.headers["content-type"].startswith("application/json")
                    return dict(answer.json()) if is_json else {}
                seen = f"{answer.status_code} {answer.text}"
            time.sleep(0.05)
        raise AssertionError(f"{name} {probe}: {seen}\n{self.log(name)}")

    def mount(self, name: str, content: str) -> None:
        """Put a secret into the processes' folder, whole."""
        folder = self.root / "secrets"
        folder.mkdir(exist_ok=True)
        draft = folder / f".{name}"
        draft.write_text(content)
        draft.chmod(0o440)
        draft.replace(folder / name)

    @property
    def admin_key(self) -> str:
        """The key that the first start left."""
        return Path(self.environment("init")["PENSTOCK_ADMIN_KEY_FILE"]).read_text().strip()


@cache
def _issuer(root: Path) -> Issuer:
    return Issuer(root / "certificates")


def worker_key(platform_key: str) -> str:
    """Return the text of the worker's key file under this platform key."""
    key = bytes.fromhex(platform_key)
    return f"{worker_secret(key, WORKER).hex()} {worker_bearer(key, WORKER, VERSION)}"


@contextmanager
def deployed(root: Path, dsn: str) -> Iterator[Place]:
    """Yield a deployment with its secrets and no process yet; end what was started."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = Place(root, dsn, silent)
        place.mount("platform-key", KEY)
        place.mount("api-key-pepper", PEPPER)
        for name in ("gateway", "controller", "runner"):
            place.mount(f"{name}-database-password", f"of-{name}")
        place.mount("worker-key", worker_key(KEY))
        place.mount("signing-public-key", "x")
        for role in Role:
            place.issuer.mounted(role)
        (root / "read-only").mkdir(mode=0o500)
        try:
            yield place
        finally:
            for process in place.running:
                process.kill()
                process.wait()
