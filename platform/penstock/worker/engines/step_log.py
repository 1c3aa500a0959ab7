"""The engine's side of the step log: records each step's contents and seconds, and answers the gate's process.

Only the engine core's process knows both: its scheduler plans each step and gets its result. Written for vLLM 0.32.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.domain.models.steps import StepBatch, pairs_of
from penstock.steps.log import StepLog

METHOD = "penstock_steps"
_WAITED = Path("/proc/thread-self/schedstat")
Told = dict[str, Any]


def batch_of(step: Mapping[str, int], requests: Mapping[str, Any]) -> StepBatch:
    """VLLM has already counted the step's tokens as computed."""
    decoding = prompt = context = 0
    pairs = 0.0
    for name, tokens in step.items():
        request = requests[name]
        before = request.num_computed_tokens - tokens
        if tokens == 1 and before >= request.num_prompt_tokens:
            decoding += 1
            context += before
        else:
            prompt += tokens
            pairs += pairs_of(tokens, before)
    return StepBatch(decoding, prompt, context, pairs)


def waited_s() -> float:
    """Seconds runnable without a core; 0 if the kernel does not count them. Waits of other threads, for which this one
    may sleep during a step, are not included.
    """
    with suppress(OSError, ValueError, IndexError):
        return int(_WAITED.read_text().split()[1]) / 1e9
    return 0.0


def told(log: StepLog, hardware: str, *, forget: bool) -> Told:
    """The first call means that warm-up is over: recording begins."""
    log.is_on = True
    if forget:
        log.forget()
    return {
        "hardware": hardware,
        "steps": log.steps,
        "disturbed": log.disturbed,
        "points": [[*one.batch, one.seconds] for one in log.points()],
    }


async def ask(app: Any, *, forget: bool) -> Told | None:  # noqa: ANN401  vLLM's FastAPI application
    client = getattr(getattr(app, "state", None), "engine_client", None)
    if client is None or "penstock" not in str(client.vllm_config.scheduler_config.scheduler_cls):
        return None
    found: Told = await client.engine_core.call_utility_async(METHOD, forget)
    return found


def hardware(ranks: int) -> str:
    """The processor's name, and the engine's part of it: its GPUs, or its threads of a CPU."""
    import torch
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        return f"{_processor()} x{torch.get_num_threads()}"
    return f"{current_platform.get_device_name()} x{ranks}"


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return os.uname().machine


def install() -> None:
    from vllm.v1.engine.core import EngineCore

    def penstock_steps(self: Any, forget: bool) -> Told:  # noqa: ANN401, FBT001  vLLM passes positions
        return told(self.scheduler.step_log, hardware(self.vllm_config.parallel_config.world_size), forget=forget)

    setattr(EngineCore, METHOD, penstock_steps)
