"""The sums over one gate's requests, for metrics and load."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from penstock.domain.ids import VersionId
from penstock.domain.outcome import Stage
from penstock.domain.serving.report import Load, Report
from penstock.formats.report import HEADER, encode
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics
from penstock.worker.gate.asgi import Headers
from penstock.worker.gate.load import LoadBook
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.estimates import Slowness
from penstock.worker.gate_config import GateConfig

CATALOGUE = (
    names.GATE_REFUSALS,
    names.GATE_SECONDS,
    names.TTFT_ERROR_RATIO,
    names.ABORTS,
    names.TOKENS_AFTER_DISCONNECT,
    names.QUEUED_TOKENS,
    names.DOOR_WAITING,
    names.DOOR_SATURATION,
    names.DOOR_STANDING_BACK,
    names.DOOR_SHED,
    names.DOOR_BATCH_SLOTS,
    names.ENGINE_SLOTS,
)


class Tally:
    def __init__(self, config: GateConfig, queue: AdmissionQueue, clock: Callable[[], float]) -> None:
        self.book, self.queue = LoadBook(config.max_num_seqs), queue
        self._clock, self._slowness = clock, Slowness()
        self._worker, version = config.worker.encode(), config.version
        self._version: VersionId = version
        self.metrics = metrics = Metrics(CATALOGUE)
        self.queue_s = metrics.histogram(names.GATE_SECONDS).labels(version, Stage.QUEUE)
        self.prefill_s = metrics.histogram(names.GATE_SECONDS).labels(version, Stage.PREFILL)
        self.decode_s = metrics.histogram(names.GATE_SECONDS).labels(version, Stage.DECODE)
        self._ttft_error = metrics.histogram(names.TTFT_ERROR_RATIO).labels(version)
        self.aborts = metrics.counter(names.ABORTS).labels(version)
        self.late_tokens = metrics.counter(names.TOKENS_AFTER_DISCONNECT).labels(version)
        self._shed = metrics.counter(names.DOOR_SHED)
        metrics.gauge(names.QUEUED_TOKENS).labels(version).set_function(lambda: self.book.queued_tokens)
        metrics.gauge(names.DOOR_WAITING).labels(version).set_function(lambda: len(queue))
        metrics.gauge(names.DOOR_SATURATION).labels(version).set_function(lambda: queue.slots.saturation)
        metrics.gauge(names.ENGINE_SLOTS).labels(version).set(queue.slots.size.max_seqs)
        batch_slots = metrics.gauge(names.DOOR_BATCH_SLOTS)
        for reason in queue.yielding.bounds(0.0):
            batch_slots.labels(version, reason).set_function(partial(self._batch_slots, reason))
        standing_back = metrics.gauge(names.DOOR_STANDING_BACK).labels(version)
        standing_back.set_function(lambda: queue.look_at is not None)
        self.beside: list[Callable[[], bytes]] = []
        """Further pages of metrics of this process."""

    def _batch_slots(self, reason: str) -> float:
        return min(self.queue.slots.size.max_seqs, self.queue.yielding.bounds(self._clock())[reason])

    def shed(self, standing: str, reason: str) -> None:
        self._shed.labels(self._version, standing, reason).inc()

    def judged(self, predicted_s: float, took_s: float) -> None:
        self._ttft_error.observe(abs(predicted_s / took_s - 1))
        self._slowness.learn(took_s, predicted_s, self._clock())

    @property
    def load(self) -> Load:
        inside, queue = self.book.load, self.queue
        pace = queue.forecast.pace.per_s
        return replace(
            inside,
            waiting=inside.waiting + len(queue),
            queued_tokens=inside.queued_tokens + round(queue.waiting_cost),
            wait_s=queue.waiting_cost / pace,
            pace_per_s=round(pace / self._slowness.ratio(self._clock()), 1),
        )

    def headers(self, report: Report) -> Headers:
        return ((HEADER, encode(replace(report, load=self.load))), (b"x-penstock-worker", self._worker))

    def exposition(self) -> bytes:
        return b"".join([self.metrics.exposition(), *(more() for more in self.beside)])
