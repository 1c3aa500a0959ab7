"""The rules of a run: each compares two accounts of it and yields a sentence for each violation. Pure.

Trade-off: if a client can't know the outcome (it left, its gateway was killed), the rules allow each possible one.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator

from penstock.domain.outcome import Outcome
from penstock.domain.tenancy.budget import budgets
from penstock.domain.tenancy.ledger import LedgerRow
from penstock.domain.tenancy.limits import Measure, MeterKind
from tests.support.histories.record import Asked, Counted, End, Fault, History, Hurt, Opened, Settled

Rule = Callable[[History], Iterator[str]]


def check(history: History) -> list[str]:
    """Return the violations."""
    return [f"{rule.__name__}: {finding}" for rule in RULES for finding in rule(history)]


def name_of(request: str) -> str:
    """Return the client's name of a request: the gateway appends something unique."""
    return request.partition("#")[0].rpartition("-")[0]


# -- requests and rows ---------------------------------------------------------------------------


def one_row_each(history: History) -> Iterator[str]:
    """Each admitted request has exactly one row, and no other request has one."""
    rows = Counter(name_of(row.request) for row in history.rows)
    for asked in history.asked:
        least, most = {True: (1, 1), False: (0, 0), None: (0, 1)}[asked.admitted]
        if not least <= rows[asked.name] <= most:
            yield f"{asked.name} ({asked.end}, admitted={asked.admitted}) has {rows[asked.name]} rows"
    for name in rows.keys() - {asked.name for asked in history.asked}:
        yield f"{name} has a row and was never asked"


def rows_say_how_it_ended(history: History) -> Iterator[str]:
    """A whole answer is a row of that outcome, unless its gateway died with the line unwritten; and no other is."""
    for asked, row in _pairs(history):
        if asked.end is End.WHOLE and row.outcome is not Outcome.OK and not history.killed_under(asked):
            yield f"{asked.name} was answered, its row says {row.outcome}"
        if asked.end is End.FAILED and row.outcome is Outcome.OK:
            yield f"{asked.name} failed, its row says ok"


def billed_is_what_was_made(history: History) -> Iterator[str]:
    """Nothing is billed that no engine made, and everything that reached a client is, but a dead gateway's round."""
    for asked, row in _pairs(history):
        made = history.made.get(row.request)
        if made is None:
            if row.cost or row.output_tokens:
                yield f"{asked.name} is billed {row.cost} for {row.output_tokens} tokens, no engine saw it"
            continue
        if row.output_tokens > made:
            yield f"{asked.name} is billed {row.output_tokens} tokens, {made} were made"
        unseen = history.bounds.round_s * history.bounds.tokens_per_s if history.killed_under(asked) else 0.0
        if row.output_tokens < asked.tokens - unseen:
            yield f"{asked.name} got {asked.tokens} tokens, {row.output_tokens} are billed"


def the_refused_never_ran(history: History) -> Iterator[str]:
    """No engine saw a request that was refused at admission, or answered from a record."""
    seen = {name_of(request) for request in history.made}
    for asked in history.asked:
        if asked.admitted is False and asked.name in seen:
            yield f"{asked.name} ({asked.end}) was not admitted and ran"


def one_effect_per_key(history: History) -> Iterator[str]:
    """Requests of one idempotency key ran to their end once and got one answer; a lost store may forget a record."""
    ends, answers = Counter[tuple[str, str]](), defaultdict[tuple[str, str], set[str]](set)
    finished = {name_of(row.request) for row in history.rows if row.outcome is Outcome.OK}
    for asked in (one for one in history.asked if one.once):
        key = (asked.tenant, asked.once)
        ends[key] += asked.name in finished
        if asked.end in {End.WHOLE, End.REPLAYED}:
            answers[key].add(asked.answer)
    forgotten = len(history.during(Fault.LIMITS_LOST)) + len(history.during(Fault.GATEWAY_KILLED))
    for key, count in ends.items():
        if count > 1 + forgotten:
            yield f"{key} ran to its end {count} times"
        if len(answers[key]) > 1 + forgotten:
            yield f"{key} has {len(answers[key])} answers"


# -- leases --------------------------------------------------------------------------------------


def one_settlement_each(history: History) -> Iterator[str]:
    """A lease is settled once; never settled are only those of dead gateways and of a store that lost them."""
    times = Counter(settled.lease for settled in history.settled)
    opened = {one.lease: one for one in history.opened}
    yield from (f"{lease} was settled {count} times" for lease, count in times.items() if count > 1)
    yield from (f"{lease} was settled and never opened" for lease in times.keys() - opened.keys())
    orphans = {asked.name for asked in history.asked if history.killed_under(asked)}
    for lease in opened.keys() - times.keys():
        if name_of(lease) not in orphans and not _is_forgotten(history, opened[lease]):
            yield f"{lease} was never settled"


def the_store_gives_no_more_than_it_has(history: History) -> Iterator[str]:
    """Replayed in order, what is held and spent never exceeds a slot meter's or a budget's capacity."""
    store = _Store()
    for event in _in_order(history):
        match event:
            case Hurt():
                store = _Store()
            case Counted():
                store.spent[event.meter] = event.spent
            case Settled():
                store.settle(event)
            case Opened():
                found = store.open(event)
                yield from () if _is_recovering(history, event.at) else found


class _Store:
    """What a limits store should hold by what it was told."""

    def __init__(self) -> None:
        self.spent = Counter[str]()
        self._held: dict[str, dict[str, tuple[int, float]]] = defaultdict(dict)

    def settle(self, event: Settled) -> None:
        for leases in self._held.values():
            leases.pop(event.lease, None)
        self.spent.update(event.spent)

    def open(self, event: Opened) -> list[str]:
        found = []
        for take in (one for one in event.takes if one.kind is not MeterKind.BUCKET):
            holds, spent = self._held[take.meter], self.spent[take.meter]
            living = sum(amount for amount, due in holds.values() if due > event.at)
            if living + spent + take.amount > take.capacity:
                used = f"{living} held and {spent} spent of {take.capacity}"
                found.append(f"{event.lease} took {take.amount} of {take.meter} with {used}")
            holds[event.lease] = (take.amount, event.due)
        return found


def nothing_is_held_at_rest(history: History) -> Iterator[str]:
    """Without requests, no meter holds anything and no engine or gateway is busy."""
    rest = history.rest
    yield from (f"{meter} still holds {amount}" for meter, amount in rest.held.items() if amount)
    if rest.running:
        yield f"engines still run {rest.running} requests"
    if rest.in_flight:
        yield f"gateways still count {rest.in_flight} requests in flight"


# -- money and limits ------------------------------------------------------------------------------


def spend_is_the_sum_of_rows(history: History) -> Iterator[str]:
    """Each budget's meter counts what its scope's rows cost; rows around a store's loss may be missing from it."""
    unsure = _cost(history, lambda row: _is_unsure(history, row))
    for meter, cost in _cost(history, lambda _: True).items():
        counted = history.rest.spent.get(meter, 0)
        if abs(counted - cost) > unsure[meter]:
            yield f"{meter} counts {counted}, its rows cost {cost} (unsure: {unsure[meter]})"


def budgets_end(history: History) -> Iterator[str]:
    """No scope spends more than its cap and what single answers outgrew their reservations by."""
    reserved = Counter[str]()
    for opened in history.opened:
        for take in opened.takes:
            if take.measure is Measure.SPEND:
                reserved[f"{opened.lease.partition('#')[0]} {take.meter}"] += take.amount
    caps = {b.meter: b.cap for scopes in history.scopes.values() for b in budgets(scopes, _now(history))}
    uncounted = _cost(history, lambda row: _is_unsure(history, row))
    for meter, cost in _cost(history, lambda _: True).items():
        rows = (row for row in history.rows if meter in _meters(history, row))
        outgrown = sum(max(0, row.cost - reserved[f"{row.request} {meter}"]) for row in rows)
        if meter in caps and cost > caps[meter] + outgrown + uncounted[meter]:
            yield f"{meter}: {cost} spent of {caps[meter]}, {outgrown} outgrown, {uncounted[meter]} unsure"


def rates_hold_in_every_window(history: History) -> Iterator[str]:
    """In no stretch of time are more requests admitted than a bucket holds, refills and outages give anew."""
    for tenant, scopes in history.scopes.items():
        rates = [scope.plan.requests_per_min for scope in scopes if scope.plan.requests_per_min]
        ours = sorted((one for one in history.asked if one.tenant == tenant and one.admitted), key=_began)
        for i, first in enumerate(ours if rates else ()):
            inside = sorted(one.ended_at for one in ours[i:])
            for count, end in enumerate(inside, start=1):
                most = min(rates) * (1 + _refills(history, first.began_at, end)) + min(rates) / 60 * (
                    end - first.began_at
                )
                if count > most:
                    yield f"{tenant}: {count} admitted within {end - first.began_at:.2f} s, {most:.1f} allowed"
                    return


RULES: tuple[Rule, ...] = (
    one_row_each,
    rows_say_how_it_ended,
    billed_is_what_was_made,
    the_refused_never_ran,
    one_effect_per_key,
    one_settlement_each,
    the_store_gives_no_more_than_it_has,
    nothing_is_held_at_rest,
    spend_is_the_sum_of_rows,
    budgets_end,
    rates_hold_in_every_window,
)


def _began(asked: Asked) -> float:
    return asked.began_at


def _now(history: History) -> float:
    return max((row.opened_at for row in history.rows), default=0.0)


def _pairs(history: History) -> Iterator[tuple[Asked, LedgerRow]]:
    by_name = {asked.name: asked for asked in history.asked}
    for row in history.rows:
        asked = by_name.get(name_of(row.request))
        if asked is not None:
            yield asked, row


def _in_order(history: History) -> Iterable[Opened | Settled | Counted | Hurt]:
    losses = history.during(Fault.LIMITS_LOST)
    return sorted([*history.opened, *history.settled, *history.counted, *losses], key=lambda event: event.at)


def _is_forgotten(history: History, opened: Opened) -> bool:
    """Tell whether the store lost the lease, or granted it after the gateway had stopped waiting for the answer."""
    lost = any(opened.at <= hurt.at for hurt in history.during(Fault.LIMITS_LOST))
    return lost or _is_recovering(history, opened.at)


def _is_recovering(history: History, at: float) -> bool:
    """Tell whether the store was away, or has just come back: then it hears of what was decided without it."""
    away = (*history.during(Fault.LIMITS_LOST), *history.during(Fault.LIMITS_FROZEN))
    return any(hurt.at <= at <= hurt.until + 2 * history.bounds.round_s for hurt in away)


def _is_unsure(history: History, row: LedgerRow) -> bool:
    """Tell whether a row's settlement may have fallen between a store's loss and its recount from the ledger."""
    late = 2 * history.bounds.round_s
    losses = history.during(Fault.LIMITS_LOST)
    return any(row.closed_at >= hurt.at - late and row.opened_at <= hurt.until + late for hurt in losses)


def _meters(history: History, row: LedgerRow) -> list[str]:
    return [budget.meter for budget in budgets(history.scopes.get(row.tenant, ()), row.opened_at)]


def _cost(history: History, which: Callable[[LedgerRow], bool]) -> Counter[str]:
    sums = Counter[str]()
    for row in history.rows:
        for meter in _meters(history, row) if which(row) else ():
            sums[meter] += row.cost
    return sums


def _refills(history: History, begin: float, end: float) -> int:
    """Count how often a bucket may have been full anew: an outage gives each gateway one, a lost store one more."""
    lost = [hurt for hurt in history.during(Fault.LIMITS_LOST) if hurt.until >= begin and hurt.at <= end]
    frozen = [hurt for hurt in history.during(Fault.LIMITS_FROZEN) if hurt.until >= begin and hurt.at <= end]
    return len(lost) + history.bounds.gateways * (len(lost) + len(frozen))
