"""Failures charged to callers: tenants and shapes of requests that failed although the platform's probe passed. Pure.

A shape contains no caller's text, so it may be logged.

Trade-off: good and bad bodies may share a shape; a worker that becomes faulty meanwhile is found by other tenants'
failures, or when the charge has expired.
"""

from dataclasses import dataclass
from typing import NewType

from penstock.domain.ids import NO_VERSION, TenantId, VersionId
from penstock.domain.serving.request import InferenceRequest

Shape = NewType("Shape", str)

_FEATURES = frozenset(
    """
    add_generation_prompt allowed_token_ids bad_words best_of chat_template_kwargs continue_final_message dimensions
    documents echo encoding_format frequency_penalty ignore_eos logit_bias logprobs min_tokens mm_processor_kwargs n
    presence_penalty prompt_logprobs reasoning reasoning_effort repetition_penalty response_format seed stop
    stop_token_ids structured_outputs suffix text thinking tool_choice tools top_logprobs truncate_prompt_tokens
    use_beam_search
    """.split()
)


@dataclass(frozen=True, slots=True)
class Origin:
    tenant: TenantId
    shape: Shape
    adapter: VersionId = NO_VERSION
    """The requested adapter: its failures say nothing of its base, nor of another adapter."""


def shape_of(request: InferenceRequest, prompt_tokens: int, adapter: VersionId = NO_VERSION) -> Shape:
    """API, streaming, size (a power of four), the body's features, the adapter."""
    size = (max(0, prompt_tokens).bit_length() + 1) // 2
    features = sorted(_FEATURES.intersection(request.body))
    asked = (request.api, "stream" if request.stream else "whole", f"4^{size}", *features)
    return Shape(" ".join((*asked, adapter) if adapter else asked))


LASTS_S = 10.0
"""A charge's lifetime."""
WHOLE_FROM = 4
"""The number of charged shapes from which the whole tenant is charged."""
MOST_TENANTS = 1024


class Charges:
    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[TenantId, dict[Shape, float]] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def charge(self, origin: Origin, now: float) -> None:
        shapes = self._of.pop(origin.tenant, {})
        lasting = {shape: until for shape, until in shapes.items() if until > now}
        if len(lasting) < WHOLE_FROM:
            lasting[origin.shape] = now + LASTS_S
        else:
            lasting = dict.fromkeys(lasting, now + LASTS_S)
        self._of[origin.tenant] = lasting
        if len(self._of) > MOST_TENANTS:
            del self._of[next(iter(self._of))]

    def covers(self, origin: Origin, now: float) -> bool:
        shapes = self._of.get(origin.tenant)
        if not shapes:
            return False
        lasting = [shape for shape, until in shapes.items() if until > now]
        if not lasting:
            del self._of[origin.tenant]
        return origin.shape in lasting or len(lasting) >= WHOLE_FROM

    def clear(self, origin: Origin) -> None:
        shapes = self._of.get(origin.tenant)
        if shapes is not None:
            shapes.pop(origin.shape, None)
            if not shapes:
                del self._of[origin.tenant]
