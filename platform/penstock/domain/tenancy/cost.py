"""Upper bound of a request's cost, the one value that every limit, slot, charge and bill uses (C11).

All numbers are sums over the request's prompts and sequences. The API computes it from the body; later knowledge (the
model's context, the prompt's count, the plan's bound) only lowers it. It is never below the true cost.
"""

from dataclasses import dataclass

UNBOUNDED = 1 << 40
"""Tokens if the body sets no bound and the model isn't known yet."""

BODY_BYTES_PER_TOKEN = 8
"""Body bytes that take as much CPU work as one prompt token, in tokeniser, template or grammar compiler.

Text and token ids have fewer bytes per token, so only other bodies cost more than their prompt.
"""

MOST_WORK_TOKENS = 1 << 17
"""An upper bound on the CPU work of one body, whatever it contains: a queue's bound must not shut it out."""

SCORED_TOKEN = 4
"""CPU work of a token with log probabilities, in prompt tokens: logits, and their sorting."""

MOST_OF_ENGINE = 0.5
"""The part of an engine's sequences that one request may decode at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """``sequences``: prompts times ``n``; beams count as sequences."""

    prompts: int = 1
    sequences: int = 1
    prompt_tokens: int = UNBOUNDED
    output_tokens: int = UNBOUNDED
    is_counted: bool = False
    """True where ``prompt_tokens`` is exact."""
    body_bytes: int = 0
    scores_prompt: bool = False
    """True where each prompt token gets log probabilities."""
    decode_tokens: int = 0
    """Images' pixels as prompt tokens: part of the prompt of a model that takes images. They are no part of the body.
    """
    copied_tokens: int = 0
    """Tensors' bytes as prompt tokens of work."""

    @property
    def names_no_output(self) -> bool:
        return self.output_tokens >= UNBOUNDED

    @property
    def output_each(self) -> int:
        return -(-self.output_tokens // self.sequences)

    @property
    def slots(self) -> int:
        """The concurrent requests that it counts as; a pooling request counts as one."""
        return self.sequences if self.output_tokens else 1

    @property
    def work_tokens(self) -> int:
        """CPU work for grammar, template, scores and tensors, in prompt tokens; without reading the prompt."""
        unread = max(0, self.body_bytes // BODY_BYTES_PER_TOKEN - self.prompt_tokens)
        scored = SCORED_TOKEN * self.prompt_tokens if self.scores_prompt else 0
        return min(MOST_WORK_TOKENS, unread + scored + self.copied_tokens)

    def with_output(self, each: int) -> "Cost":
        return self._of(self.prompt_tokens, each * self.sequences, is_counted=self.is_counted)

    def with_prompt(self, tokens: int, *, is_counted: bool) -> "Cost":
        """Return the cost with an exact prompt count, or a tighter upper bound."""
        return self._of(min(tokens, self.prompt_tokens), self.output_tokens, is_counted=is_counted)

    def within(self, context: int) -> "Cost":
        """Prompt and output share the context length."""
        prompt = min(self.prompt_tokens, self.prompts * context)
        left = self.prompts * context - (prompt if self.is_counted else 0)
        most = self.sequences // self.prompts * max(self.prompts, left)
        return self._of(prompt, min(self.output_tokens, most), is_counted=self.is_counted)

    def _of(self, prompt: int, output: int, *, is_counted: bool) -> "Cost":
        """Copy with other counts: ``dataclasses.replace`` takes three times as long."""
        return Cost(
            prompts=self.prompts,
            sequences=self.sequences,
            prompt_tokens=prompt,
            output_tokens=output,
            is_counted=is_counted,
            body_bytes=self.body_bytes,
            scores_prompt=self.scores_prompt,
            decode_tokens=self.decode_tokens,
            copied_tokens=self.copied_tokens,
        )


def most_sequences(max_num_seqs: int) -> int:
    return max(1, int(max_num_seqs * MOST_OF_ENGINE))
