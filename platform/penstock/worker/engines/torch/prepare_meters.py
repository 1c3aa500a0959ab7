"""Metrics of a version's CPU tier: inputs waiting for a thread, their waits, and how long threads are held.

By these it is scaled apart from the device: a queue here asks for cores, one for a batch asks for devices.
"""

from collections.abc import Sized

from penstock.domain.ids import VersionId
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics

CATALOGUE = (names.PREPARE_WAITING, names.PREPARE_WAIT_SECONDS, names.PREPARE_SECONDS)


class PrepareMeters:
    def __init__(self, version: VersionId) -> None:
        self._metrics = Metrics(CATALOGUE)
        self._waiting = self._metrics.gauge(names.PREPARE_WAITING).labels(version)
        self._wait_s = self._metrics.histogram(names.PREPARE_WAIT_SECONDS).labels(version)
        self._held_s = self._metrics.histogram(names.PREPARE_SECONDS).labels(version)

    def watch(self, queue: Sized) -> None:
        self._waiting.set_function(lambda: len(queue))

    def prepared(self, waited_s: float, held_s: float) -> None:
        self._wait_s.observe(waited_s)
        self._held_s.observe(held_s)

    def exposition(self) -> bytes:
        return self._metrics.exposition()
