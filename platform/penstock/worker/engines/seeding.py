"""Keeps seeded sampling exact on a CPU if a prompt is prefilled in several steps.

vLLM samples for each prompt in each step and discards draws before prefill ends, resetting the seeded generator by an
offset, which a CPU generator lacks: the engine's core dies. Here the generator's whole state is saved before such a
draw and restored after it. Written for vLLM 0.32.
"""

from collections.abc import Callable
from typing import Any

_installed: list[str] = []


def install() -> None:
    from vllm.v1.worker.cpu_model_runner import CPUModelRunner

    if _installed:
        return
    _installed.append("vllm")
    CPUModelRunner._sample = keeping(CPUModelRunner._sample)  # noqa: SLF001  they have no public names
    CPUModelRunner._bookkeeping_sync = without(CPUModelRunner._bookkeeping_sync)  # noqa: SLF001


def keeping(sample: Callable[..., Any]) -> Callable[..., Any]:
    def sampled(self: Any, *args: Any, **named: Any) -> Any:  # noqa: ANN401  vLLM is untyped here
        before = [(generator, generator.get_state()) for generator in _of_unread(self).values()]
        drawn = sample(self, *args, **named)
        for generator, state in before:
            generator.set_state(state)
        return drawn

    return sampled


def without(book: Callable[..., Any]) -> Callable[..., Any]:

    def booked(self: Any, *args: Any, **named: Any) -> Any:  # noqa: ANN401  vLLM is untyped here
        unread, known = _of_unread(self), self.input_batch.generators
        for row in unread:
            del known[row]
        try:
            return book(self, *args, **named)
        finally:
            known.update(unread)

    return booked


def _of_unread(runner: Any) -> dict[int, Any]:  # noqa: ANN401
    mask, known = runner.discard_request_mask.np, runner.input_batch.generators
    return {row: generator for row, generator in known.items() if row < runner.input_batch.num_reqs and mask[row]}
