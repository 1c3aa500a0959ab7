"""Metrics of one version's batches, with labels bound once."""

from penstock.domain.ids import VersionId
from penstock.domain.serving.report import Trigger
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics, observe_many
from penstock.worker.batching.items import Fired, Left

CATALOGUE = (
    names.BATCHES,
    names.BATCH_ITEMS,
    names.BATCH_FILL_RATIO,
    names.BATCH_PADDING_RATIO,
    names.BATCH_WAIT_SECONDS,
    names.BATCH_COMPUTE_SECONDS,
    names.BATCH_WINDOW_SECONDS,
    names.BATCH_PREDICTED_SECONDS,
    names.BATCHES_BEYOND_PREDICTED,
    names.BATCH_LEFT,
)


class BatchMeters:
    def __init__(self, version: VersionId) -> None:
        metrics = self.metrics = Metrics(CATALOGUE)
        self._batches = {one: metrics.counter(names.BATCHES).labels(version, one) for one in Trigger}
        self._left = {one: metrics.counter(names.BATCH_LEFT).labels(version, one) for one in Left}
        self._items = metrics.histogram(names.BATCH_ITEMS).labels(version)
        self._fill = metrics.histogram(names.BATCH_FILL_RATIO).labels(version)
        self._padding = metrics.histogram(names.BATCH_PADDING_RATIO).labels(version)
        self._wait_s = metrics.histogram(names.BATCH_WAIT_SECONDS).labels(version)
        self._compute_s = metrics.histogram(names.BATCH_COMPUTE_SECONDS).labels(version)
        self._beyond = metrics.counter(names.BATCHES_BEYOND_PREDICTED).labels(version)
        self._version = version

    def fired(self, fired: Fired) -> None:
        self._batches[fired.trigger].inc()
        self._items.observe(fired.size)
        self._fill.observe(fired.fill_ratio)
        self._padding.observe(fired.padding_ratio)
        observe_many(self._wait_s, fired.waits_s)
        self.metrics.gauge(names.BATCH_WINDOW_SECONDS).labels(self._version).set(fired.window_s)
        self.metrics.gauge(names.BATCH_PREDICTED_SECONDS).labels(self._version).set(fired.predicted_s)
        if fired.compute_s is not None:
            self._compute_s.observe(fired.compute_s)
            self._beyond.inc(fired.compute_s > fired.predicted_s)

    def left(self, why: Left) -> None:
        self._left[why].inc()

    def exposition(self) -> bytes:
        return self.metrics.exposition()
