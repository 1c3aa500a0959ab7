"""The report of a worker's gate in each answer: the engine's load, and the request's wait, adapter and batch.

One JSON value on the wire (``formats.report``); unknown parts are left out.
"""

from dataclasses import dataclass
from enum import StrEnum

FIRST_PACE = 500.0
"""Tokens of service per second assumed before the engine's first work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """``queued_tokens``: prompt tokens accepted and not yet prefilled, plus expected output of running requests."""

    running: int = 0
    waiting: int = 0
    queued_tokens: int = 0
    kv_used_ratio: float = 0.0
    wait_s: float = 0.0
    """Seconds that the work queued at the gate will take, at its pace."""
    pace_per_s: float = 0.0
    """Tokens of service per second with the requests inside, by step model and late first tokens; 0: not told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    standing: str
    own: int
    others: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """Seconds. ``share`` is its tenant's part of the engine; ``waiting`` requests of ``tenants`` tenants were queued
    before it. Other tenants appear as counts only.
    """

    predicted_s: float = 0.0
    waited_s: float = 0.0
    share: float | None = None
    waiting: int = 0
    tenants: int = 0
    ahead: tuple[Ahead, ...] = ()


AT_ONCE = Waited()


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """The bill's basis. Prompt tokens count once per prompt; output tokens and sequences are sums over all prompts,
    choices and beams. ``is_final`` is False while the request runs.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    sequences: int = 0
    prompts: int = 0
    is_final: bool = True
    steps: int | None = None
    """Engine steps that made the request's tokens, once for each sequence; None if not counted."""
    beside: int | None = None
    """Sequences in those steps, the request's own included."""
    engine_us: int | None = None
    """Engine microseconds of the request: its part of each step, divided equally among the requests in the step."""
    waited_s: float | None = None
    """Seconds waited in the gate's queue; None while it waits."""


NOTHING = Used()
"""It never ran."""


class Trigger(StrEnum):
    SIZE = "size"
    """The batch had as many items as one may have."""
    BUDGET = "budget"
    """One more item would have exceeded the budget of tokens, or of seconds."""
    DEADLINE = "deadline"
    """A later start would have missed the earliest deadline."""
    WAIT = "wait"
    """The oldest item had waited for the longest permitted time."""
    IDLE = "idle"
    """The device was idle, and no item was expected soon enough to wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batched:
    """``size`` is the number of items at its start."""

    size: int
    trigger: Trigger
    waited_s: float
    prepared_s: float | None = None
    """Seconds in which the input became tensors; None from an older worker."""
    computed_s: float | None = None


class Met(StrEnum):
    HIT = "hit"
    """In memory and in a slot of the batch, or a slot was free: no wait."""
    QUEUED = "queued"
    """In memory, but all slots were taken: the request waited for one."""
    LOADED = "loaded"
    """Not in memory, or not yet checked: the request waited for the load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapted:
    """The state at arrival, and the wait for the adapter, a part of the wait in the queue."""

    met: Met
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A stream's ``used`` comes with its last event, not with its head."""

    load: Load | None = None
    waited: Waited | None = None
    adapted: Adapted | None = None
    batched: Batched | None = None
    used: Used | None = None


SILENT = Report()
