"""What kind of request it is: what an engine may stumble over, in words of ours. Pure.

Nothing that the caller wrote stands in it, so it may be logged. Trade-off: two bodies of one shape may be as different
as good and poison; but a shape that many tenants' good requests have says that the body is at fault, not the worker.
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
    """Whose request failed, and of what shape it was."""

    tenant: TenantId
    shape: Shape
    adapter: VersionId = NO_VERSION
    """The adapter that it asked for: what goes wrong with one says nothing of its base, nor of another."""


def shape_of(request: InferenceRequest, prompt_tokens: int, adapter: VersionId = NO_VERSION) -> Shape:
    """Return API, streaming, size (a power of four), the features that the body asks for, and the adapter."""
    size = (max(0, prompt_tokens).bit_length() + 1) // 2
    features = sorted(_FEATURES.intersection(request.body))
    asked = (request.api, "stream" if request.stream else "whole", f"4^{size}", *features)
    return Shape(" ".join((*asked, adapter) if adapter else asked))
