"""Fills requests' meters from vLLM's output objects, in the process of its HTTP server.

Every API uses vLLM's ``OutputProcessor``: a request enters it in the context of its HTTP request, and each step's new
token ids pass before detokenisation, so that the engine's own ids are counted. Before that, each prompt of a list waits
in ``AsyncLLM.add_request`` for a slot of its request's share. Written for vLLM 0.32.
"""

import logging
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.domain.clock import Clock, SystemClock
from penstock.worker.engines.standstill import STOPS
from penstock.worker.engines.step_time import StepTime
from penstock.worker.meter import RUNS, current, fill

PRIORITY_PER_WEIGHT = 2
"""The scale of a request's integer priority, which carries its tenant's weight to the engine's scheduler: 1/2 is the
least.
"""

_BEAM = re.compile(r"^(.+)-[0-9a-f]+-beam-\d+$")
"""The name of a beam search's requests, one per beam and step: the prompt, and the beam's output so far."""


def install() -> None:
    from vllm import envs
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.engine.output_processor import OutputProcessor

    fill("vllm")
    AsyncLLM.add_request = sharing(AsyncLLM.add_request)
    steps, clock = StepTime(envs.VLLM_V1_OUTPUT_PROC_CHUNK_SIZE), SystemClock()
    OutputProcessor.add_request = adding(OutputProcessor.add_request, steps, clock)
    OutputProcessor.abort_requests = aborting(OutputProcessor.abort_requests, steps, clock)
    OutputProcessor.process_outputs = processing(OutputProcessor.process_outputs, steps)


def sharing(add: Any) -> Any:  # noqa: ANN401
    """Each prompt of a list waits until its request's share has a free slot."""

    async def add_request(self: Any, request_id: Any, prompt: Any, params: Any, *args: Any, **named: Any) -> Any:  # noqa: ANN401
        meter = current.get()
        share = meter.share if meter is not None else None
        if meter is not None:
            named["priority"] = max(1, round(PRIORITY_PER_WEIGHT * meter.weight))  # for the scheduler
            if meter.stops != RUNS and hasattr(params, "extra_args"):  # vectors have none: each is one step
                params.extra_args = {**(params.extra_args or {}), STOPS: [*meter.stops]}
        if share is None:
            return await add(self, request_id, prompt, params, *args, **named)
        choices = getattr(params, "n", 1)  # vectors have none
        await share.take(choices)
        try:
            queue = await add(self, request_id, prompt, params, *args, **named)
        except BaseException:
            share.give(choices)
            raise
        queue.close = _giving(queue, partial(share.give, choices))
        return queue

    return add_request


def _giving(queue: Any, give: Callable[[], None]) -> Callable[[], None]:  # noqa: ANN401
    """Closing a prompt's output queue frees its slot, however the prompt ends."""

    def close() -> None:
        del queue.close  # its class has the real one
        give()
        queue.close()

    return close


def adding(add: Any, steps: StepTime, clock: Clock) -> Any:  # noqa: ANN401  vLLM is untyped here

    def add_request(self: Any, request: Any, *args: Any, **named: Any) -> None:  # noqa: ANN401
        known = request.request_id in self.request_states
        if not self.request_states:
            steps.begins(clock.monotonic())
        add(self, request, *args, **named)
        state = self.request_states.get(request.request_id)
        if known or state is None:  # more input for a request that runs
            return
        meter = state.meter = current.get()
        state.tells_cached = False
        steps.reads(request.request_id, meter.read if meter is not None else _nobody)
        if meter is None:
            return
        if state.parent_req is None or state.request_index == 0:  # further choices have the first one's prompt
            search = _BEAM.match(state.external_req_id)
            state.tells_cached = meter.prompt(state.prompt_len, search[1] if search else "")
        params = getattr(request, "sampling_params", None)  # vectors have none
        meter.enter(has_grammar=getattr(params, "structured_outputs", None) is not None)

    return add_request


def aborting(abort: Any, steps: StepTime, clock: Clock) -> Any:  # noqa: ANN401
    """A request in prefill is charged its part of the step."""

    def abort_requests(self: Any, *args: Any, **named: Any) -> Any:  # noqa: ANN401
        gone = abort(self, *args, **named)
        now, inside = clock.monotonic(), len(self.request_states) + len(gone)
        for request in gone:
            steps.leaves(request, now, inside)
        return gone

    return abort_requests


def _nobody(_: float) -> None: ...


def processing(process: Any, steps: StepTime) -> Any:  # noqa: ANN401
    def process_outputs(self: Any, outputs: Any, ended_at: float, *args: Any, **named: Any) -> Any:  # noqa: ANN401
        states = self.request_states
        before, inside = [states.get(output.request_id) for output in outputs], len(states)
        done = process(self, outputs, ended_at, *args, **named)  # cuts what was made beyond a stop string
        try:
            each_s = steps.each(ended_at, [output.request_id for output in outputs], inside)
            for state in before:  # all steps before any first token: a stalled one is known by then
                if state is not None and state.meter is not None:
                    state.meter.shared(len(outputs), each_s, ended_at)
            _count(states, before, outputs)
        except Exception:
            logging.getLogger(__name__).exception("what a step made could not be counted")
        return done

    return process_outputs


def _count(states: Any, before: Any, outputs: Any) -> None:  # noqa: ANN401
    for state, output in zip(before, outputs, strict=True):
        if state is None or (meter := state.meter) is None:
            continue
        if state.tells_cached:
            state.tells_cached = False
            meter.cached(state.num_cached_tokens, state.num_cache_creation_tokens)
        meter.made(len(output.new_token_ids))
        if output.request_id not in states:
            meter.leave()
