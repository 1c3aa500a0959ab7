"""The refusal of a request that no worker accepts: the reason, and the retry time. Pure."""

from penstock.domain.errors import NoCapacity, Overloaded
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.outcome import OWN_QUEUE, POOL_PINNED, TENANT_QUEUE
from penstock.gateway.routing.router_settings import RouterSettings

_THERE = frozenset({WorkerState.READY, WorkerState.SLEEPING})
"""States of workers that serve again without a start from nothing: lost a moment ago, or asleep."""


_COMES = frozenset(WorkerState) - frozenset({WorkerState.SLEEPING, WorkerState.STOPPED, WorkerState.FAILED})


class RoutingRefusals:
    def __init__(self, settings: RouterSettings) -> None:
        self._settings = settings

    def nobody(self, version: VersionEntry) -> NoCapacity:
        """Return the refusal with the expected end of the first start, else the usual time of a start.

        A worker lost a moment ago and still in the table is restarted on its node, which is quicker.
        """
        if version.is_crowded_out and not any(worker.state in _COMES for worker in version.workers):
            says = "no worker of this model can start: pinned models hold the memory that it needs"
            return NoCapacity(says, reason=POOL_PINNED)
        if version.is_unwanted and not version.workers:
            return NoCapacity("no worker of this model is deployed, and none starts until an operator scales it")
        starting = [w.ready_in_s for w in version.workers if w.state.is_starting and w.ready_in_s]
        return NoCapacity(retry_after_s=self._within(min(starting, default=0.0) or self._start_s(version)))

    def failing(self, version: VersionEntry, shut_s: float, *, is_unreachable: bool) -> NoCapacity:
        """Return a shut version's refusal with the next probe's time, or a start's if only a start helps."""
        if is_unreachable:
            return self.nobody(version)
        return NoCapacity("every worker of this model fails", retry_after_s=self._within(shut_s))

    def refusing(self, wait_s: float) -> NoCapacity:
        says = "the adapter was refused by every worker of its base, and is tried again after a while"
        return NoCapacity(says, retry_after_s=self._within(wait_s))

    def own_queue(self, wait_s: float) -> Overloaded:
        return Overloaded(OWN_QUEUE, retry_after_s=self._within(wait_s), reason=TENANT_QUEUE)

    def full(self, wait_s: float) -> Overloaded:
        return Overloaded(retry_after_s=self._within(wait_s))

    def _start_s(self, version: VersionEntry) -> float:
        is_there = any(worker.state in _THERE for worker in version.workers)
        start_s = (is_there and version.restart_s) or version.start_s or version.kin_start_s
        return start_s + self._settings.notice_s if start_s else self._settings.retry_after_s

    def _within(self, wait_s: float) -> float:
        return min(self._settings.most_retry_after_s, max(1.0, wait_s))
