"""Model versions: immutable and content-addressed."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from penstock.domain.ids import ModelName, VersionId
from penstock.domain.models.tensors import TensorSpec
from penstock.domain.money import Price

_SHA256_CHARS = 64
_HEX = frozenset("0123456789abcdef")
_LATER_OF_ENGINES = (
    ("tensor_parallel_size", 1),
    ("adapter_slots", 0),
    ("adapter_rank", 0),
    ("kv_cache_dtype", "auto"),
    ("kv_offload_bytes", 0),
)
"""Engine settings added after the first versions, and the values that applied before."""


class Task(StrEnum):
    GENERATE = "generate"
    EMBED = "embed"
    CLASSIFY = "classify"
    """Labels and scores, of images, texts or tensors."""


class Runtime(StrEnum):
    VLLM = "vllm"
    TORCH = "torch"


class Tier(StrEnum):
    """Objectives are in ``slo/specs``, one file each."""

    CHAT = "chat"
    """Classifiers and other models that answer in one step."""
    STANDARD = "standard"
    BATCH = "batch"
    EMBEDDING = "embedding"
    CLASSIC = "classic"
    """Classifiers and whatever else answers in one step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    path: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenPrompt:
    """A worker that gets it wrong never becomes ready (G1).

    For generating models ``expect`` is a substring of the greedy answer to ``prompt`` (one chat message if the model
    has a chat template). For embedding models ``prompt`` and ``near`` must be closer (cosine) than ``prompt`` and
    ``far``. For classifiers ``prompt`` is a text, or an image as a ``data:`` URL, and ``expect`` its label.
    """

    prompt: str
    expect: str = ""
    max_tokens: int = 16
    near: str = ""
    far: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingDefaults:
    """Values of fields that the request leaves out; None keeps the engine's own."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    repetition_penalty: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Zero leaves the choice to the planner or the engine."""

    max_model_len: int = 2048
    max_num_seqs: int = 32
    max_num_batched_tokens: int = 512
    long_prefill_tokens: int = 0
    """The most tokens that one prompt takes of a step while other requests run; 0: only the step bounds it."""
    block_size: int = 32
    kv_cache_bytes: int = 268_435_456
    dtype: str = "bfloat16"
    kv_cache_dtype: str = "auto"
    """The KV cache's numbers; ``auto`` is those of the weights."""
    kv_offload_bytes: int = 0
    """Host memory of each worker for KV blocks that leave its GPUs; 0 for none. On a CPU there is none."""
    tool_parser: str = ""
    """The engine's parser of this model's tool calls; empty if it makes none."""
    tensor_parallel_size: int = 1
    """GPUs of one node over which each worker spreads the weights."""
    adapter_slots: int = 0
    """Adapter versions in one batch at most; 0 if this version is no base."""
    adapter_rank: int = 0
    """The highest rank of an adapter that fits into a slot."""


ADAPTER_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Slot ranks that vLLM has; a smaller adapter fits into a larger one."""


def slot_rank(rank: int) -> int:
    return next((size for size in ADAPTER_RANKS if size >= rank), rank)  # one that is too large vLLM refuses itself


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerSettings:
    """A torch handler for a model that vLLM does not know, in batches that the worker makes.

    ``name`` is a shipped handler, or ``handler.py`` for one in the version's files. In ``inputs`` and ``outputs`` -1 is
    a variable dimension, the first one the batch.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    max_batch: int = 16
    buckets: tuple[int, ...] = ()
    """Lengths that texts are padded to; empty if all inputs have one shape."""
    labels: str = ""
    """The file with the classes' labels, one a line; empty if a class is shown by its number."""
    item_tokens: int = 0
    """Tokens that one item counts as in limits, shares and price; 0 if texts are counted."""
    optional: tuple[str, ...] = ()
    """Inputs that a request may leave out. For the others a request gives all numeric tensors, or a single one of
    ``BYTES``.
    """
    notes: tuple[tuple[str, str], ...] = ()
    """Descriptions of the tensors by name: the scale of pixels, the order of colours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterSettings:
    """A low-rank change (LoRA, Hu et al. 2021) to the weights of its base. Its files are the change, its settings and
    its base's tokenizer; the base's workers serve it.
    """

    base: str
    """The base's whole digest: with other base weights an adapter answers nonsense."""
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    origin: str
    licence: str
    source_sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The version's digest covers its canonical JSON."""

    name: ModelName
    task: Task
    tier: Tier
    files: tuple[Artifact, ...]
    price: Price
    provenance: Provenance
    engine: EngineSettings = field(default_factory=EngineSettings)
    sampling: SamplingDefaults = field(default_factory=SamplingDefaults)
    golden: tuple[GoldenPrompt, ...] = ()
    chat_template: str = ""
    """Jinja source; empty if the model does not chat."""
    special_tokens: tuple[tuple[str, str], ...] = ()
    """Names and texts that the chat template may use, for example ``("bos_token", "<s>")``."""
    handler: HandlerSettings | None = None
    """None if vLLM runs it."""
    adapter: AdapterSettings | None = None
    """None if the version has weights of its own."""
    renders: tuple[str, ...] | None = None
    """Parts of a request that the chat template shows, found at the push; None for older pushes."""
    safety: tuple[str, ...] = ()
    """Safety packs for its requests, by name: each pack's current version holds, so that a rule can be mended."""

    @property
    def runtime(self) -> Runtime:
        return Runtime.VLLM if self.handler is None else Runtime.TORCH

    @property
    def size_bytes(self) -> int:
        return sum(f.size_bytes for f in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVersion:
    id: VersionId
    digest: str
    manifest: Manifest
    created_at: float


SHORT_DIGEST = 12
"""Hex digits of the digest in a version's id."""


def version_id(name: ModelName, digest: str) -> VersionId:
    return VersionId(f"{name}@{digest[:SHORT_DIGEST]}")


def is_sha256(text: str) -> bool:
    return len(text) == _SHA256_CHARS and not set(text) - _HEX


def canonical(manifest: Manifest) -> bytes:
    """Return the manifest's canonical JSON, which its digest covers: keys sorted, no spaces, UTF-8.

    These bytes are the version's ``manifest.json`` and a blob under their digest. A stored version is checked by its
    stored bytes: a newer ``Manifest`` may encode more fields. Fields added later are omitted at their default, so that
    older versions keep their digests.
    """
    content = asdict(manifest)
    for later, default in _LATER_OF_ENGINES:
        if content["engine"][later] == default:
            del content["engine"][later]
    for later in ("handler", "adapter", "renders"):
        if content[later] is None:
            del content[later]
    if not content["safety"]:
        del content["safety"]
    for later in ("optional", "notes") if manifest.handler is not None else ():
        if not content["handler"][later]:
            del content["handler"][later]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def digest_of(manifest: Manifest) -> str:
    """The version's digest, and its blob key."""
    return hashlib.sha256(canonical(manifest)).hexdigest()
