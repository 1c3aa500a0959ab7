"""What a worker is told of a request for an adapter."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import NO_VERSION
from penstock.domain.serving.ticket import Ticket
from penstock.gateway.pipeline import Pipeline
from tests.support.clock import ManualClock
from tests.support.samples import adapter_versions, calls


def ticket(version: VersionEntry) -> Ticket:
    stage = cast("Pipeline", SimpleNamespace(clock=ManualClock()))
    call = replace(calls.call(), version=version)
    return Pipeline._ticket(stage, call)


def test_the_ticket_names_the_adapter_and_of_other_versions_none() -> None:
    """The gate has to know it without reading the body, and a base's requests want none."""
    assert ticket(adapter_versions.entry()).adapter == adapter_versions.entry().id
    assert ticket(calls.VERSION).adapter == NO_VERSION
