"""The replicas that KEDA is told, by ScaledObject: of this controller's last ticks while it leads, and nothing else.

Trade-off: nothing is stored. A new leader tells nothing until its first tick, and KEDA holds the replicas that run.
"""

from collections.abc import Mapping

from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics


class ToldNumbers:
    """Each source tells all its objects at once: an object that it no longer tells is unknown."""

    def __init__(self, metrics: Metrics) -> None:
        self._sources: dict[str, Mapping[str, int]] = {}
        self._gauge = metrics.gauge(names.SCALE_REPLICAS)

    def tell(self, source: str, numbers: Mapping[str, int]) -> None:
        gone = self._sources.get(source, {}).keys() - numbers.keys()
        self._sources[source] = dict(numbers)
        self._remove(gone)
        for name, number in numbers.items():
            self._gauge.labels(name).set(number)

    def forget(self) -> None:
        """Forget all numbers: another controller tells them now. Their metric ends, which differs from 0."""
        known = {name for numbers in self._sources.values() for name in numbers}
        self._sources = {}
        self._remove(known)

    @property
    def all(self) -> Mapping[str, int]:
        return {name: number for numbers in self._sources.values() for name, number in numbers.items()}

    def _remove(self, objects: set[str]) -> None:
        for name in objects:
            self._gauge.remove(name)
