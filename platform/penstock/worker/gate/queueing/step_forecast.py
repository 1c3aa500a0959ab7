"""Forecasts for the queue by the step model: the engine's pace with its present requests, and a prompt's time to
its first token.

A prompt is read in chunks beside the batch that decodes, after the prompts that came before it.

Trade-off: it takes expected lengths for real ones, and ignores the prefix cache; measurements correct the pace, not the
time to the first token.
"""

import math

from penstock.domain.models.steps import StepModel, pairs_of
from penstock.domain.tokens import OUTPUT_WEIGHT, PROMPT_WEIGHT
from penstock.worker.gate.queueing.slots import Slots
from penstock.worker.gate.queueing.work import Work


class StepForecast:
    def __init__(self, model: StepModel, slots: Slots, initial: float) -> None:
        self._model, self._slots = model, slots
        self._last = initial

    def pace_per_s(self) -> float:
        slots = self._slots
        inside, sequences, mix = len(slots), slots.held.slots, slots.mix
        if not inside or not mix.output_tokens:
            return self._last
        steps = mix.output_tokens / sequences
        seconds = self._model.seconds(
            decoding=sequences,
            prompt=mix.prompt_tokens / steps,
            context=mix.context_tokens,
            pairs=inside * pairs_of(mix.prompt_tokens / inside) / steps,
        )
        self._last = (PROMPT_WEIGHT * mix.prompt_tokens / steps + OUTPUT_WEIGHT * sequences) / seconds
        return self._last

    def reading_s(self, work: Work) -> float:
        slots, prompt = self._slots, max(1, work.prompt_at_once)
        decoding, context, ahead = slots.held.slots, slots.mix.context_tokens, slots.prefill_tokens
        in_a_step = max(1, slots.size.prefill_tokens - decoding)
        steps = math.ceil((ahead + prompt) / in_a_step)
        if slots.size.long_prefill_tokens and decoding:
            steps = max(steps, math.ceil(prompt / slots.size.long_prefill_tokens))
        each_s = self._model.seconds(
            decoding=decoding,
            prompt=(ahead + prompt) / steps,
            context=context,
            pairs=(pairs_of(prompt) + pairs_of(ahead)) / steps,
        )
        running_s = self._model.seconds(decoding=decoding, context=context) / 2 if decoding else 0.0
        return steps * each_s + running_s
