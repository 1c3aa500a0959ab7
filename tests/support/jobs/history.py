"""What became of one batch, and what must hold of it whatever died meanwhile. Pure: accounts in, sentences out."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

OPEN = frozenset({"queued", "running"})
DELIVERED = "delivered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The row of a line; ``lost`` has the request ids of its attempts without a result."""

    name: str
    state: str
    attempt: int
    request: str
    lost: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    request: str
    cost: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHistory:
    custom_ids: Sequence[str]
    state: str
    total: int
    completed: int
    tokens: int
    """Of answers, by the batch's own row."""
    output: Sequence[str]
    """The ``custom_id`` of each line of the output file."""
    errors: Sequence[str]
    lines: Sequence[Line]
    bills: Sequence[Bill]
    result_files: int
    """Files of results that the batch's tenant can list, made since the batch was."""
    reserved: Mapping[str, int]
    """Tokens and jobs that open jobs hold of the tenant's limits."""
    lanes: int
    """Queues that still have lines of the batch."""
    deliveries: Sequence[str]
    """The state of each delivery of the batch's end."""
    messages: Sequence[str]
    """The id of each message about the batch that came to the receiver."""

    @property
    def lost(self) -> int:
        return len(set(self.custom_ids) - set(self.output) - set(self.errors))

    @property
    def doubled(self) -> int:
        return sum(times - 1 for times in Counter(chain(self.output, self.errors)).values())


def faults(history: BatchHistory) -> list[str]:
    """Return the violations."""
    return [f"{rule.__name__}: {found}" for rule in RULES for found in rule(history)]


def each_line_once(history: BatchHistory) -> Iterator[str]:
    found = Counter(chain(history.output, history.errors))
    for name in {*found, *history.custom_ids}:
        if found[name] != (name in history.custom_ids):
            yield f"{name} stands {found[name]} times in both files"
    if not history.total == len(history.output) + len(history.errors) == len(history.custom_ids):
        yield f"{len(history.output)} + {len(history.errors)} lines, {history.total} counted"
    if history.completed != len(history.output):
        yield f"{history.completed} counted as completed, {len(history.output)} in the output file"


def one_result_each(history: BatchHistory) -> Iterator[str]:
    succeeded = sum(line.state == "succeeded" for line in history.lines)
    if succeeded != history.completed or len(history.lines) != history.total:
        yield f"{succeeded} of {len(history.lines)} rows succeeded, {history.completed} were delivered"
    if history.result_files != bool(history.output) + bool(history.errors):
        yield f"{history.result_files} files of results"


def attempts_are_billed(history: BatchHistory) -> Iterator[str]:
    """Each attempt has one row in the ledger; the delivered one alone is paid."""
    bills = Counter(bill.request for bill in history.bills)
    for line in history.lines:
        has_result = line.state == "succeeded"
        attempts = [*line.lost, *([line.request] if has_result else [])]
        for request in attempts:
            if bills[request] != 1:
                yield f"{request} has {bills[request]} rows"
        if has_result and line.attempt != len(attempts):
            yield f"{line.name} counts {line.attempt} attempts, {len(attempts)} are noted"
    paid = sorted(bill.request for bill in history.bills if bill.cost)
    if paid != sorted(line.request for line in history.lines if line.state == "succeeded"):
        yield f"paid are {paid}"
    if (tokens := sum(bill.tokens for bill in history.bills if bill.cost)) != history.tokens:
        yield f"{tokens} tokens are paid, {history.tokens} were delivered"


def nothing_is_held(history: BatchHistory) -> Iterator[str]:
    yield from (f"{held} {what} are reserved" for what, held in history.reserved.items() if held)


def nothing_is_stuck(history: BatchHistory) -> Iterator[str]:
    if history.state not in {"completed", "cancelled"}:
        yield f"the batch is {history.state}"
    yield from (f"{line.name} is {line.state}" for line in history.lines if line.state in OPEN)
    if history.lanes:
        yield f"{history.lanes} lanes wait for nothing"


def its_end_is_told(history: BatchHistory) -> Iterator[str]:
    """Once to each endpoint; a message may come again, under its id."""
    if list(history.deliveries) != [DELIVERED] or len(set(history.messages)) != 1:
        yield f"deliveries {list(history.deliveries)}, messages {sorted(set(history.messages))}"


RULES = (each_line_once, one_result_each, attempts_are_billed, nothing_is_held, nothing_is_stuck, its_end_is_told)
