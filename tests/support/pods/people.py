"""Users of a platform: an operator at the controller's API, and callers who read their streams to the end."""

import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec

from penstock.domain.fleet.table import WEIGHT_TOTAL
from penstock.packaging.packing import Packed

Json = dict[str, Any]
WITHIN_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Operator:
    """Calls the operators' API with the first key, and a certificate of an operator."""

    url: str
    key: str
    tls: ssl.SSLContext

    def ask(self, method: str, path: str, body: object = None) -> Json:
        content = None if body is None else msgspec.json.encode(body)
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        url = f"{self.url}/admin/v1{path}"
        answer = httpx.request(
            method, url, content=content, headers=headers, trust_env=False, timeout=WITHIN_S, verify=self.tls
        )
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return dict(answer.json())

    def register(self, packed: Packed) -> str:
        """Make a version known; return its name."""
        self.ask("POST", "/models", {"manifest": packed.manifest, "signature": f"signatures/{packed.digest}"})
        return packed.id

    def deploy(self, version: str, replicas: int) -> None:
        """Say how many workers a version has."""
        self.ask("PUT", f"/deployments/{version}", {"replicas": replicas})

    def lead(self, alias: str, version: str) -> None:
        """Have an alias lead to one version."""
        self.ask("PUT", f"/aliases/{alias}", {"shares": [{"version": version, "weight": WEIGHT_TOTAL}]})

    def caller(self, tenant: str) -> str:
        """Make a tenant; return its key."""
        self.ask("POST", "/tenants", {"id": tenant})
        return str(self.ask("POST", "/keys", {"tenant": tenant})["secret"])

    def workers(self) -> dict[str, Json]:
        """Return the workers that report, by name."""
        return {worker["id"]: worker for worker in self.ask("GET", "/workers")["workers"]}


@dataclass
class Stream:
    """One chat, read by a thread of its own."""

    tokens: int
    said: list[str] = field(default_factory=list)
    worker: str = ""
    finish: str = ""
    error: str = ""
    request: str = ""
    _thread: threading.Thread | None = None

    def end(self) -> "Stream":
        assert self._thread is not None
        self._thread.join(WITHIN_S)
        assert not self._thread.is_alive(), f"a stream has not ended: {len(self.said)} tokens"
        return self

    @property
    def is_whole(self) -> bool:
        """Whether each token came, once, and nothing went wrong."""
        return not self.error and self.finish == "length" and "".join(self.said) == " the" * self.tokens


@dataclass(frozen=True, kw_only=True)
class Caller:
    url: str
    key: str
    model: str

    def sees_it(self) -> bool:
        """Tell whether its model is on the list."""
        headers = {"authorization": f"Bearer {self.key}"}
        answer = httpx.get(f"{self.url}/v1/models", headers=headers, trust_env=False, timeout=WITHIN_S)
        return answer.is_success and self.model in {one["id"] for one in answer.json()["data"]}

    def stream(self, tokens: int) -> Stream:
        """Begin a chat; return it when its first token has come."""
        found, begun = Stream(tokens), threading.Event()
        found._thread = threading.Thread(target=self._read, args=(found, begun.set))
        found._thread.start()
        assert begun.wait(WITHIN_S), "no token came"
        return found

    def _read(self, found: Stream, begun: Callable[[], None]) -> None:
        body = {
            "model": self.model,
            "stream": True,
            "temperature": 0,
            "max_tokens": found.tokens,
            "messages": [{"role": "user", "content": "Hello"}],
        }
        headers = {"authorization": f"Bearer {self.key}"}
        try:
            with (
                httpx.Client(trust_env=False, timeout=WITHIN_S) as http,
                http.stream("POST", f"{self.url}/v1/chat/completions", json=body, headers=headers) as answer,
            ):
                if not answer.is_success:
                    found.error = f"{answer.status_code} {answer.read().decode()}"
                    return
                found.worker = answer.headers.get("x-penstock-worker", "")
                found.request = answer.headers.get("x-request-id", "")
                for line in answer.iter_lines():
                    self._take(found, line, begun)
        except httpx.HTTPError as error:
            found.error = repr(error)
        finally:
            begun()

    @staticmethod
    def _take(found: Stream, line: str, begun: Callable[[], None]) -> None:
        if not line.startswith("data: {"):
            return
        event = json.loads(line.removeprefix("data: "))
        if "error" in event:
            found.error = json.dumps(event["error"])
        for choice in event.get("choices", []):
            if text := choice.get("delta", {}).get("content"):
                found.said.append(text)
                begun()
            found.finish = choice.get("finish_reason") or found.finish
