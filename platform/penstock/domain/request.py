"""One inference request as the platform sees it: parsed, counted, without HTTP."""

from dataclasses import dataclass
from enum import StrEnum

from penstock.domain.cost import Cost
from penstock.domain.ids import RequestId
from penstock.domain.model import Task


class Api(StrEnum):
    """The inference APIs, by their path."""

    CHAT = "/v1/chat/completions"
    COMPLETIONS = "/v1/completions"
    EMBEDDINGS = "/v1/embeddings"
    RESPONSES = "/v1/responses"
    MESSAGES = "/v1/messages"

    @property
    def task(self) -> Task:
        """What a model must be for to answer this API."""
        return Task.EMBED if self is Api.EMBEDDINGS else Task.GENERATE


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceRequest:
    """What the edge parsed. ``body`` is the caller's JSON object with identity fields already stripped (A4).

    ``deadline_s`` is what the caller asked for, in seconds from arrival; 0 where silent.
    ``arrived_at`` is monotonic seconds. ``cost`` is what the body alone says; ``Call.cost`` knows more.
    """

    id: RequestId
    api: Api
    model: str
    body: dict[str, object]
    stream: bool
    include_usage: bool
    cost: Cost
    arrived_at: float
    deadline_s: float = 0.0
    traceparent: str = ""
    idempotency_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What preprocessing learned: prompt tokens, and the prompt's block hashes for prefix routing.

    ``blocks[i]`` covers the first ``(i + 1) * block_size`` tokens under the tenant's salt.
    Where only the engine can render the request, ``prompt_tokens`` is an upper bound and ``is_counted`` False.
    """

    prompt_tokens: int
    is_counted: bool = True
    blocks: tuple[int, ...] = ()
