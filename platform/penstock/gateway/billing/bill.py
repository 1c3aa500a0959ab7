"""The usage that is billed, by its best source: the gate's count, the engine's report, or the gateway's estimate. Pure.

The engine's report is billed only if the gate has no count and the answer is complete. No source is accepted above the
request's highest cost, since a worker may be compromised.
"""

from penstock.domain.outcome import Outcome
from penstock.domain.serving.report import Used
from penstock.domain.tokens import Usage
from penstock.gateway.calls.call import Admitted, Answer, Call

_FREE = frozenset({Outcome.ENGINE_ERROR, Outcome.INTERNAL})


def due(answer: Answer, usage: Usage) -> Usage:
    """Return None after the engine's or platform's own error before the first token."""
    return Usage(exact=usage.exact) if answer.outcome in _FREE and answer.ttft_s is None else usage


def counted(call: Call, used: Used) -> Usage:
    prompt = max(0, used.prompt_tokens - call.attempts.kept_tokens)
    return Usage(
        prompt_tokens=prompt,
        output_tokens=call.attempts.kept_tokens + used.output_tokens,
        cached_tokens=min(prompt, used.cached_tokens),
        exact=used.is_final,
    )


def guessed(call: Admitted, answer: Answer) -> Usage:
    known = answer.usage
    return Usage(
        prompt_tokens=max(known.prompt_tokens, call.prepared.prompt_tokens),
        output_tokens=max(known.output_tokens, call.lease.delivered),
        cached_tokens=known.cached_tokens,
        exact=False,
    )


def capped(usage: Usage, *, prompt: int, output: int) -> Usage:
    """Return the usage, at most the request's maximum, then as a guess."""
    if usage.prompt_tokens <= prompt and usage.output_tokens <= output:
        return usage
    prompt = min(prompt, usage.prompt_tokens)
    return Usage(
        prompt_tokens=prompt,
        output_tokens=min(output, usage.output_tokens),
        cached_tokens=min(prompt, usage.cached_tokens),
        exact=False,
    )


def differs(call: Call, said: Usage, used: Used) -> bool:
    """Tell whether a complete answer's account differs from the gate's. Beams are exempt: the engine counts those that
    it kept.
    """
    if call.request.body.get("use_beam_search"):
        return False
    ours = counted(call, used)
    return (said.prompt_tokens, said.output_tokens) != (ours.prompt_tokens, ours.output_tokens)
