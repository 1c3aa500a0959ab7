"""Metrics of rollouts: each alias's candidate, whether its judge is fit, how rollouts ended.

Only the leader sets these gauges; it removes them when it stops leading, since 0 would be wrong.
"""

from collections.abc import Iterable, Mapping

from penstock.domain.fleet.table import WEIGHT_TOTAL
from penstock.domain.ids import Alias
from penstock.domain.rollout.judgement import Judgement
from penstock.domain.rollout.rollout import Rollout, State
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics

_LIVE = tuple(state for state in State if not state.is_over)
_OVER = tuple(state for state in State if state.is_over)


class RolloutMetrics:
    def __init__(self, metrics: Metrics) -> None:
        self._states, self._share = metrics.gauge(names.ROLLOUTS), metrics.gauge(names.ROLLOUT_SHARE_RATIO)
        self._unfit, self._proposed = metrics.gauge(names.JUDGE_UNFIT), metrics.gauge(names.ROLLOUT_UNDO_PROPOSED)
        self._ends = metrics.counter(names.ROLLOUT_ENDS)
        self._live: dict[str, Alias] = {}

    def show(self, live: Iterable[Rollout], judgements: Mapping[str, Judgement | None]) -> frozenset[str]:
        now = {one.id: one for one in live}
        for one in now.values():
            if one.id not in self._live:
                self._begin(one.alias)
            for state in _LIVE:
                self._states.labels(one.alias, state).set(one.state is state)
            self._share.labels(one.alias).set(one.weight / WEIGHT_TOTAL)
            judgement = judgements.get(one.id)
            self._unfit.labels(one.alias).set(bool(judgement is not None and judgement.unfit))
            self._proposed.labels(one.alias).set(one.proposed)
        gone = frozenset(self._live.keys() - now.keys())
        for alias in {self._live[one] for one in gone} - {one.alias for one in now.values()}:
            self._remove(alias)
        self._live = {one.id: one.alias for one in now.values()}
        return gone

    def ended(self, rollout: Rollout) -> None:
        self._ends.labels(rollout.alias, rollout.state).inc()

    def unknown(self) -> None:
        for gauge in (self._states, self._share, self._unfit, self._proposed):
            gauge.clear()
        self._live = {}

    def _begin(self, alias: Alias) -> None:
        """Prometheus's ``increase`` would not see a counter that begins at 1."""
        for state in _OVER:
            self._ends.labels(alias, state)

    def _remove(self, alias: Alias) -> None:
        for state in _LIVE:
            self._states.remove(alias, state)
        for gauge in (self._share, self._unfit, self._proposed):
            gauge.remove(alias)
