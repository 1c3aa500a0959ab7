"""The replicas that KEDA gets, by ScaledObject: those of this controller's last tick while it leads.

Trade-off: a new leader has no numbers until its first tick; meanwhile KEDA keeps the present replicas.
"""

from collections.abc import Mapping

from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics


class ToldNumbers:
    """A source sets all its objects at once: one that it leaves out is unknown."""

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
        """Another controller decides now: their metric goes, too."""
        known = {name for numbers in self._sources.values() for name in numbers}
        self._sources = {}
        self._remove(known)

    @property
    def all(self) -> Mapping[str, int]:
        return {name: number for numbers in self._sources.values() for name, number in numbers.items()}

    def _remove(self, objects: set[str]) -> None:
        for name in objects:
            self._gauge.remove(name)
