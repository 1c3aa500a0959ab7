"""vLLM's scheduler with tenants: ``stepping`` selects the tenants of a step, vLLM plans the step.

Paused tenants' requests are hidden from vLLM while it plans the step and then appended behind the others; if the engine
is full they are preempted for a prompt of the tenant below its share. vLLM loads it by name (``--scheduler-cls``). The
cache salt, set by the gateway, identifies the tenant; the priority, set by the gate, carries its weight. Written for
vLLM 0.32.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import RequestStatus

from penstock.domain.clock import SystemClock
from penstock.domain.tokens import OUTPUT_WEIGHT, PROMPT_WEIGHT
from penstock.steps.log import StepLog
from penstock.worker.engines import compile_time, grammar_words, log_lines, mask_time, seeding, step_log
from penstock.worker.engines.standstill import STOPS, Standstill
from penstock.worker.engines.stepping import Inside, Stepping, Turnout, prompt_bound
from penstock.worker.meter import Stops

_READABLE = frozenset({RequestStatus.WAITING, RequestStatus.PREEMPTED})


class _BySteps(Scheduler):
    """Installs the patches that a spawned core process has not imported."""

    def __init__(self, *args: Any, **named: Any) -> None:  # noqa: ANN401  vLLM is untyped here
        log_lines.install()
        grammar_words.install()
        compile_time.install()
        mask_time.install()
        step_log.install()
        super().__init__(*args, **named)
        self._clock, self._stepping, self.step_log = SystemClock(), Stepping(), StepLog()
        self._standstill = Standstill()
        assert self._blocks_left >= 0  # noqa: S101  a place of vLLM's that is gone is found here, not beside callers
        assert all(callable(one) for one in (self._preempt_request, self._request_blocks_can_be_freed))  # noqa: S101

    def schedule(self, *args: Any, **named: Any) -> Any:  # noqa: ANN401
        now = self._clock.monotonic()
        with self._only(self._stepping.next(self._inside(), now), self._standstill.next(self._stopping(), now)):
            planned = super().schedule(*args, **named)
        if self._stepping.is_shared:
            self._charge(planned.num_scheduled_tokens, now)
        if self.step_log.is_on:
            batch = step_log.batch_of(planned.num_scheduled_tokens, self.requests)
            self.step_log.planned(batch, now, step_log.waited_s())
        return planned

    def update_from_output(self, *args: Any, **named: Any) -> Any:  # noqa: ANN401
        outputs = super().update_from_output(*args, **named)
        if self.step_log.is_on:
            self.step_log.ended(self._clock.monotonic(), step_log.waited_s())
        return outputs

    def _charge(self, step: dict[str, int], now: float) -> None:
        served: dict[str, float] = {}
        for name, tokens in step.items():
            tenant = _tenant(self.requests[name])
            served[tenant] = served.get(tenant, 0.0) + (PROMPT_WEIGHT * tokens if tokens > 1 else OUTPUT_WEIGHT)
        for tenant, tokens_of_service in served.items():
            self._stepping.served(tenant, tokens_of_service, now)

    def _inside(self) -> list[Inside]:
        inside: dict[str, Inside] = {}
        for request in (*self.running, *self.waiting):
            name = _tenant(request)
            tenant = inside.get(name)
            if tenant is None:
                tenant = inside[name] = Inside(name, max(1, request.priority))
            tenant.sequences += 1
            tenant.prompts += request.is_prefill_chunk or request.status in _READABLE
        return list(inside.values())

    def _stopping(self) -> Iterator[tuple[str, Stops]]:
        for request in (*self.running, *self.waiting):
            args = getattr(request.sampling_params, "extra_args", None)
            if args and (stops := args.get(STOPS)):
                yield request.request_id, Stops(*stops)

    @contextmanager
    def _only(self, turnout: Turnout, stopped: frozenset[str]) -> Iterator[None]:
        """Paused and stopped requests keep their slots."""

        def is_still(request: Any) -> bool:  # noqa: ANN401
            return request.request_id in stopped or _tenant(request) in turnout.still

        config = self.scheduler_config
        threshold = config.long_prefill_token_threshold
        active = self.max_num_active_reqs  # type: ignore[has-type]  # vLLM's own
        is_any = bool(stopped or turnout.still)
        running = _taken(self.running, is_still) if is_any else []
        if running:
            self._make_room(running, is_still)
        waiting = _taken(self.waiting, is_still) if is_any else []
        self.max_num_active_reqs = active - len(running)
        config.long_prefill_token_threshold = self._threshold(turnout, threshold)
        try:
            yield
        finally:
            self.running.extend(running)
            self.waiting.extend(waiting)
            config.long_prefill_token_threshold, self.max_num_active_reqs = threshold, active

    def _make_room(self, running: list[Any], is_still: Callable[[Any], bool]) -> None:
        """Preempt for the first prompt: the least often preempted request first, then the newest.

        Its KV blocks stay cached until needed.
        """
        head = next((one for one in self.waiting if not is_still(one)), None)
        if head is None or head.status not in _READABLE:
            return
        blocks = self._blocks_of(head) + 1
        if sum(map(self._blocks_of, running)) + self._blocks_left < blocks:
            return
        while running and (self._is_full(running) or self._blocks_left < blocks):
            victim = min(reversed(running), key=lambda one: one.num_preemptions)
            if not self._request_blocks_can_be_freed(victim):
                return
            running.remove(victim)
            self._preempt_request(victim, self._clock.monotonic())

    def _blocks_of(self, request: Any) -> int:  # noqa: ANN401
        tokens: int = request.num_tokens
        return -(-tokens // self.block_size)

    @property
    def _blocks_left(self) -> int:
        free: int = self.kv_cache_manager.block_pool.get_num_free_blocks()
        return free

    def _is_full(self, still: list[Any]) -> bool:
        return len(self.running) + len(still) >= self.max_num_active_reqs

    def _threshold(self, turnout: Turnout, threshold: int) -> int:
        if turnout.prompt_part >= 1.0:
            return threshold
        return max(self.block_size, prompt_bound(self.max_num_scheduled_tokens, threshold, part=turnout.prompt_part))


class TenantScheduler(_BySteps):
    def __init__(self, *args: Any, **named: Any) -> None:  # noqa: ANN401
        seeding.install()
        super().__init__(*args, **named)


class AsyncTenantScheduler(_BySteps, AsyncScheduler):
    """For engines that schedule a step while the one before still runs."""


def _taken(requests: Any, is_still: Callable[[Any], bool]) -> list[Any]:  # noqa: ANN401
    taken, rest = list[Any](), list[Any]()
    for one in requests:
        (taken if is_still(one) else rest).append(one)
    requests.clear()
    requests.extend(rest)
    return taken


def _tenant(request: Any) -> str:  # noqa: ANN401
    return request.cache_salt or ""
