"""One inference request as the platform sees it: parsed and counted, without its HTTP part."""

from dataclasses import dataclass
from enum import StrEnum

from penstock.domain.ids import RequestId
from penstock.domain.models.model import Task
from penstock.domain.money import FREE, MicroUsd
from penstock.domain.tenancy.cost import Cost


class Api(StrEnum):
    CHAT = "/v1/chat/completions"
    COMPLETIONS = "/v1/completions"
    EMBEDDINGS = "/v1/embeddings"
    CLASSIFY = "/v1/classify"
    RESPONSES = "/v1/responses"
    MESSAGES = "/v1/messages"
    INFER = "/v2/infer"
    """Tensors, between gateway and worker: the Open Inference Protocol has the model in its path."""

    @property
    def tasks(self) -> frozenset[Task]:
        return _TASKS.get(self, _GENERATES)

    @property
    def generates(self) -> bool:
        return self not in _TASKS


_GENERATES = frozenset({Task.GENERATE})
_TASKS = {
    Api.EMBEDDINGS: frozenset({Task.EMBED}),
    Api.CLASSIFY: frozenset({Task.CLASSIFY}),
    Api.INFER: frozenset({Task.EMBED, Task.CLASSIFY}),
}
JSON_APIS = tuple(api for api in Api if api is not Api.INFER)
"""APIs with a path for callers and one JSON object as body."""


class Sealed:
    """A large field of a body, left as JSON: parsing it would delay every stream of the process.

    Not a dataclass, because encoders would encode its content.
    """

    __slots__ = ("is_text", "items", "json")

    def __init__(self, json: bytes, *, items: int, is_text: bool) -> None:
        self.json, self.items, self.is_text = json, items, is_text


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedTensors:
    """``head_bytes`` of JSON, then each tensor's bytes."""

    head_bytes: int
    data: bytes
    items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceRequest:
    """``body`` is the caller's JSON object without identity fields (A4).

    ``deadline_s`` is the caller's deadline, in seconds from arrival; 0 without one. ``arrived_at`` is monotonic
    seconds. ``cost`` is derived from the body alone; ``Call.cost`` is tighter. In a large request some fields are
    ``Sealed``, and ``digest`` identifies the body.
    """

    id: RequestId
    api: Api
    model: str
    body: dict[str, object]
    stream: bool
    include_usage: bool
    cost: Cost
    arrived_at: float
    usage_each: bool = False
    """Whether each event of the stream reports the usage so far."""
    deadline_s: float = 0.0
    traceparent: str = ""
    """The W3C context sent to the worker: with tracing, that of this request's own span."""
    caller_trace: str = ""
    idempotency_key: str = ""
    digest: str = ""
    session: str = ""
    """The caller's name for the session of the request; sessions of two tenants are never the same."""
    tensors: PackedTensors | None = None
    """The input sent to a worker instead of the body, for a model that takes tensors."""
    price_cap: MicroUsd = FREE
    """The most that the caller pays for a million tokens, of prompt or of output; 0 without a cap."""
    cache_key: str = ""
    """``prompt_cache_key``: requests of one tenant and key go to one worker, all else being equal."""
    geo: str = ""
    """The region that answers, if its caller asked for one by ``inference_geo``."""
    kept_rule: str = ""
    """The auto alias's rule used earlier in this conversation, as the caller states."""

    @property
    def is_large(self) -> bool:
        return bool(self.digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """``blocks[i]`` covers the first ``(i + 1) * block_size`` tokens under the tenant's salt. If only the engine can
    render the request, ``prompt_tokens`` is an upper bound and ``is_counted`` False.
    """

    prompt_tokens: int
    is_counted: bool = True
    blocks: tuple[int, ...] = ()
    affinity: int = 0
    """A hash of the tenant's salt and the request's cache key; 0 without one."""
    told: tuple[str, ...] = ()
    """Fields to report to the caller, because the version's chat template does not read them."""
