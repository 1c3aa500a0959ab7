"""Probes as the kubelet runs them: period, timeout, thresholds, and what each means."""

import time
from dataclasses import dataclass
from typing import Any

import httpx

Json = dict[str, Any]


@dataclass(kw_only=True)
class Probe:
    """One probe of a container at the pod's address, and the answers that it got in a row."""

    told: Json
    address: str
    ports: dict[str, int]
    _due: float = 0.0
    _row: int = 0
    said: str = ""

    def look(self) -> bool | None:
        """Ask if it is time; True or False once enough answers in a row agree, None until then."""
        if time.monotonic() < self._due:
            return None
        self._due = time.monotonic() + self.told.get("periodSeconds", 10)
        good = self._ask()
        self._row = max(1, self._row + 1) if good else min(-1, self._row - 1)
        if self._row >= self.told.get("successThreshold", 1):
            return True
        return False if -self._row >= self.told.get("failureThreshold", 3) else None

    def _ask(self) -> bool:
        page = self.told["httpGet"]
        port = self.ports[page["port"]] if isinstance(page["port"], str) else page["port"]
        url = f"{page.get('scheme', 'HTTP').lower()}://{self.address}:{port}{page['path']}"
        try:
            answer = httpx.get(url, timeout=self.told.get("timeoutSeconds", 1), trust_env=False, verify=False)  # noqa: S501
        except httpx.HTTPError as error:
            self.said = type(error).__name__
            return False
        self.said = f"{answer.status_code} {answer.text[:120]}"
        return 200 <= answer.status_code < 400
