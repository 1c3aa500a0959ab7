"""One inference request as the platform sees it: parsed, counted, without HTTP."""

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
    """Tensors, between gateway and worker: the Open Inference Protocol's callers name the model in their path."""

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
"""Those whose path is a caller's, and whose body is one JSON object."""


class Sealed:
    """A large body's field that stays JSON: reading it would hold up every stream of the process.

    Not a dataclass: encoders would look inside.
    """

    __slots__ = ("is_text", "items", "json")

    def __init__(self, json: bytes, *, items: int, is_text: bool) -> None:
        self.json, self.items, self.is_text = json, items, is_text


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedTensors:
    """Tensors in binary form: ``head_bytes`` of JSON, then each tensor's bytes."""

    head_bytes: int
    data: bytes
    items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceRequest:
    """``body`` is the caller's JSON object without identity fields (A4).

    ``deadline_s`` is what the caller asked for, in seconds from arrival; 0 if silent. ``arrived_at`` is monotonic
    seconds. ``cost`` is what the body alone says; ``Call.cost`` knows more. In a large request some fields are
    ``Sealed``, and ``digest`` tells its body from another one's.
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
    """Whether each event of its stream tells the usage so far."""
    deadline_s: float = 0.0
    traceparent: str = ""
    """The W3C context that goes on to the worker: where requests are traced, that of this request's own span."""
    caller_trace: str = ""
    idempotency_key: str = ""
    digest: str = ""
    session: str = ""
    """What its caller calls the session that it belongs to; two tenants' are never one."""
    tensors: PackedTensors | None = None
    """What goes to a worker instead of the body, where a model takes tensors."""
    price_cap: MicroUsd = FREE
    """The most that its caller pays for a million tokens, of prompt or of output; 0 where silent."""
    cache_key: str = ""
    """``prompt_cache_key``: requests of one tenant and key go to one worker, all else being equal."""
    geo: str = ""
    """The region that answers, if its caller asked for one by ``inference_geo``."""
    kept_rule: str = ""
    """The rule of an auto alias that its conversation has had, by its caller's word."""

    @property
    def is_large(self) -> bool:
        return bool(self.digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Prompt tokens, and the prompt's block hashes for prefix routing.

    ``blocks[i]`` covers the first ``(i + 1) * block_size`` tokens under the tenant's salt. If only the engine can
    render the request, ``prompt_tokens`` is an upper bound and ``is_counted`` False.
    """

    prompt_tokens: int
    is_counted: bool = True
    blocks: tuple[int, ...] = ()
    affinity: int = 0
    """A hash of the tenant's salt and the request's cache key; 0 without one."""
    told: tuple[str, ...] = ()
    """Fields that the version's chat template does not read."""
