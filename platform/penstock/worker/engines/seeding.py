"""Lets an engine on a CPU draw by a request's seed though its prompt is read in several steps.

vLLM samples for each prompt in each step, and throws away what was drawn while the prompt was not through: then it
sets the seeded generator back by an offset, which a CPU's generator does not have, and the engine's core dies of it.
Here the generator's whole state is kept before such a draw and put back after it, so an answer depends on its seed and
not on how its prompt was cut. Written for vLLM 0.32; an engine that has no such places does not start.
"""

from collections.abc import Callable
from typing import Any

_installed: list[str] = []


def install() -> None:
    """Keep seeded generators right from now on, in the process that runs the model."""
    from vllm.v1.worker.cpu_model_runner import CPUModelRunner

    if _installed:
        return
    _installed.append("vllm")
    CPUModelRunner._sample = keeping(CPUModelRunner._sample)  # noqa: SLF001  they have no public names
    CPUModelRunner._bookkeeping_sync = without(CPUModelRunner._bookkeeping_sync)  # noqa: SLF001


def keeping(sample: Callable[..., Any]) -> Callable[..., Any]:
    """Return the draw of a step after which the generators of unread prompts are as before."""

    def sampled(self: Any, *args: Any, **named: Any) -> Any:  # noqa: ANN401  vLLM is untyped here
        before = [(generator, generator.get_state()) for generator in _of_unread(self).values()]
        drawn = sample(self, *args, **named)
        for generator, state in before:
            generator.set_state(state)
        return drawn

    return sampled


def without(book: Callable[..., Any]) -> Callable[..., Any]:
    """Return the bookkeeping of a step that finds no generator to set back."""

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
    """Return the seeded generators of the rows whose prompts are not through, by row."""
    mask, known = runner.discard_request_mask.np, runner.input_batch.generators
    return {row: generator for row, generator in known.items() if row < runner.input_batch.num_reqs and mask[row]}
