"""Metrics pages read from the processes themselves, without a Prometheus."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import httpx
from prometheus_client.parser import text_string_to_metric_families

from penstock.telemetry.series import INSTANCE, Sample

TIMEOUT_S = 10.0
Page = Mapping[str, tuple[Sample, ...]]
"""Samples by their full name, such as ``penstock_requests_total``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Pages by address, read at one moment (monotonic seconds); ``silent`` addresses did not answer."""

    at: float
    pages: Mapping[str, Page]
    silent: tuple[str, ...] = ()


def parse(text: str, instance: str) -> Page:
    found: dict[str, list[Sample]] = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            value = None if math.isnan(one.value) else float(one.value)
            found.setdefault(one.name, []).append(Sample(labels={**one.labels, INSTANCE: instance}, value=value))
    return {name: tuple(samples) for name, samples in found.items()}


def read(
    addresses: Iterable[str], at: float, transport: httpx.BaseTransport | None = None, *, timeout_s: float = TIMEOUT_S
) -> Reading:
    pages: dict[str, Page] = {}
    silent: list[str] = []
    named = tuple(addresses)
    verify = any(address.startswith("https:") for address in named)
    with httpx.Client(timeout=timeout_s, trust_env=False, transport=transport, verify=verify) as http:
        for address in named:
            try:
                answer = http.get(address).raise_for_status()
                pages[address] = parse(answer.text, instance_of(address))
            except (httpx.HTTPError, httpx.InvalidURL, ValueError):
                silent.append(address)
    return Reading(at=at, pages=pages, silent=tuple(silent))


def instance_of(address: str) -> str:
    url = httpx.URL(address)
    return url.netloc.decode()


def everywhere(reading: Reading, name: str) -> Sequence[Sample]:
    return [sample for page in reading.pages.values() for sample in page.get(name, ())]
