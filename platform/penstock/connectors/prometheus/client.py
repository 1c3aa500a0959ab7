"""A client of Prometheus's HTTP API: instant and range queries with typed results.

Foreign errors are translated to ``CommandError`` here.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import httpx

from penstock.domain.command_error import CommandError
from penstock.telemetry.series import Sample, Series

TIMEOUT_S = 30.0
_NONE_KEPT = httpx.Limits(max_keepalive_connections=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySpan:
    """Begin and end in Unix seconds, and the interval between points."""

    begin: float
    end: float
    step_s: float


class Prometheus:
    def __init__(self, url: str, transport: httpx.BaseTransport | None = None) -> None:
        self._url = url.rstrip("/")
        self.url = re.sub(r"(?<=//)[^/@]*@", "", self._url)
        """Its address without the name and password that it may hold."""
        self._transport = transport

    def instant(self, query: str, at: float | None = None) -> tuple[Sample, ...]:
        data = self._ask("query", {"query": query} | ({} if at is None else {"time": f"{at:.3f}"}))
        if data["resultType"] == "scalar":
            return (Sample(labels={}, value=_number(data["result"][1])),)
        if data["resultType"] != "vector":
            raise CommandError(
                f"Prometheus answered a {data['resultType']} to {query!r}.", do="Ask for a vector or a scalar."
            )
        return tuple(Sample(labels=_labels(one), value=_number(one["value"][1])) for one in data["result"])

    def range(self, query: str, span: QuerySpan) -> tuple[Series, ...]:
        """A series has no point at a time without a measurement."""
        times = {"start": f"{span.begin:.3f}", "end": f"{span.end:.3f}", "step": f"{span.step_s:.3f}"}
        data = self._ask("query_range", {"query": query} | times)
        return tuple(
            Series(labels=_labels(one), points=tuple((float(at), _number(text)) for at, text in one["values"]))
            for one in data["result"]
        )

    def _ask(self, what: str, form: Mapping[str, str]) -> Mapping[str, Any]:
        try:
            answer = self._http.post(f"{self._url}/api/v1/{what}", data=dict(form))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CommandError(
                f"No Prometheus answers at {self.url} ({type(error).__name__}).",
                do="Start one with `penstock up --observe`, or give the address of yours with --prometheus.",
            ) from error
        return self._data(answer, form["query"])

    def _data(self, answer: httpx.Response, query: str) -> Mapping[str, Any]:
        try:
            body = answer.json()
            if body["status"] == "success":
                data: Mapping[str, Any] = body["data"]
                return data
            kind, message = str(body["errorType"]), str(body["error"])
        except (ValueError, LookupError, TypeError) as error:
            raise CommandError(
                f"What answers at {self.url} with status {answer.status_code} is no Prometheus.",
                do="Give the address of its web page with --prometheus.",
            ) from error
        remedy = "Ask for a shorter time." if kind in _TOO_MUCH else "Correct the query."
        raise CommandError(f"Prometheus refused {query!r}: {message} [{kind}].", do=remedy)

    @cached_property
    def _http(self) -> httpx.Client:
        verify = self.url.startswith("https:")
        return httpx.Client(
            timeout=TIMEOUT_S, trust_env=False, transport=self._transport, limits=_NONE_KEPT, verify=verify
        )


_TOO_MUCH = frozenset({"timeout", "canceled", "execution", "unavailable"})


def _labels(result: Mapping[str, Any]) -> dict[str, str]:
    return dict(result["metric"])


def _number(text: str) -> float | None:
    value = float(text)
    return None if math.isnan(value) else value
