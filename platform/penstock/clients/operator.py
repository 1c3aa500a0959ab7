"""A client of the operators' API; its refusals become ``CommandError``."""

import ssl
from typing import Any

import httpx

from penstock.clients.chat import refused
from penstock.domain.command_error import CommandError
from penstock.tls.handshake import failed

TIMEOUT_S = 60.0
Json = dict[str, Any]


class Operator:
    def __init__(self, url: str, key: str, tls: ssl.SSLContext | None = None, *, timeout_s: float = TIMEOUT_S) -> None:
        """Prepare the client without connecting; without ``tls``, certificates are verified by the machine's
        authorities.
        """
        self._url, self._timeout_s = url, timeout_s
        # Made once: to read all authorities of a machine takes longer than what is asked, and who waits asks often.
        self._verify = tls or (httpx.create_ssl_context(trust_env=False) if url.startswith("https:") else False)
        self._headers = {"authorization": f"Bearer {key}"}

    def get(self, path: str) -> Json:
        return self._call("GET", path, None)

    def post(self, path: str, body: Json | None = None) -> Json:
        return self._call("POST", path, body)

    def put(self, path: str, body: Json) -> Json:
        return self._call("PUT", path, body)

    def patch(self, path: str, body: Json) -> Json:
        return self._call("PATCH", path, body)

    def delete(self, path: str) -> Json:
        return self._call("DELETE", path, None)

    def _call(self, method: str, path: str, body: Json | None) -> Json:
        try:
            with self._http() as http:
                answer = http.request(method, f"/admin/v1{path}", json=body)
        except httpx.HTTPError as error:
            raise CommandError(
                f"No controller answers at {self._url} ({failed(error) or type(error).__name__}).",
                do="Start the platform with `penstock up`, or give its address with --url (PENSTOCK_URL). "
                "If it runs, its controller is being restarted: try again.",
            ) from error
        if answer.is_error:
            raise refused(answer)
        found: Json = answer.json() if answer.content else {}
        return found

    def _http(self) -> httpx.Client:
        return httpx.Client(
            base_url=self._url, headers=self._headers, timeout=self._timeout_s, trust_env=False, verify=self._verify
        )
