"""The plan of a run: every request, its time, caller, text and length, decided before the first one is sent.

Open loop: no session waits for another. Only inside a session does a turn wait for the answer before it, as its person
would. The same seed gives the same plan.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from loadtests.plan import fits, traces
from loadtests.plan.arrivals import arrivals
from loadtests.plan.fits import Fit
from loadtests.plan.lengths import value_at
from loadtests.plan.prompts import Piece, Writer, length
from loadtests.plan.scenario import Mix, Scenario, Tenant


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One request; ``think_s`` after the answer before it."""

    pieces: tuple[Piece, ...]
    output_tokens: int
    think_s: float = 0.0
    unary: bool = False
    slow: bool = False
    leaves_after_tokens: int = 0
    """Hangs up after so many; 0 stays to the end."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One caller's turns, the first of them at its planned time."""

    at_s: float
    tenant: str
    turns: tuple[Turn, ...]
    goes_on: bool = False
    """Whether the next turn comes though this one had no whole answer."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How lengths of the traces are fitted to a target: multiplied, then held under what it takes."""

    scale: float = 1.0
    max_prompt_tokens: int = 1_000_000
    max_output_tokens: int = 1_000_000

    def prompt(self, tokens: float) -> int:
        return max(1, min(self.max_prompt_tokens, round(tokens * self.scale)))

    def output(self, tokens: float) -> int:
        return max(1, min(self.max_output_tokens, round(tokens * self.scale)))


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a plan is made of; ``per_s`` and ``duration_s`` stand for the scenario's own."""

    scenario: Scenario
    mix: Mix
    per_s: float | None
    duration_s: float
    seed: int
    sizes: Sizes = field(default_factory=Sizes)
    trace: Path | None = None


def planned(order: Order) -> list[Session]:
    """Return all sessions in the order of their times."""
    sessions = _replayed(order, order.trace) if order.trace else _drawn(order)
    return sorted(sessions, key=lambda session: session.at_s)


def closed(order: Order, callers: int, turns: int) -> list[Session]:
    """Return callers that ask one request after another from the start: what a capacity is measured with."""
    chance, tenants = random.Random(order.seed), order.mix.tenants
    chosen = chance.choices(tenants, [tenant.weight for tenant in tenants], k=callers)
    plans = {tenant.name: _TenantPlan(order, tenant, chance) for tenant in tenants}
    return [
        Session(
            at_s=0.0, tenant=tenant.name, turns=tuple(plans[tenant.name].turn() for _ in range(turns)), goes_on=True
        )
        for tenant in chosen
    ]


def _drawn(order: Order) -> Iterator[Session]:
    whole = sum(tenant.weight for tenant in order.mix.tenants)
    for tenant in order.mix.tenants:
        chance = random.Random(f"{order.seed}:{tenant.name}")
        yield from _TenantPlan(order, tenant, chance).sessions((order.per_s or 0.0) * tenant.weight / whole)


class _TenantPlan:
    """Draws one tenant's sessions; independent of what the mix holds beside it."""

    def __init__(self, order: Order, tenant: Tenant, chance: random.Random) -> None:
        scenario = order.scenario
        self._order, self._tenant, self._chance = order, tenant, chance
        self._lengths: Fit = fits.load(tenant.lengths or scenario.lengths)
        sharing = tenant.sharing or scenario.sharing
        shared = fits.load(sharing).sharing if sharing else None
        self._writer = Writer(tenant.name, shared, order.sizes.scale, chance)

    def sessions(self, per_s: float) -> Iterator[Session]:
        order, tenant, scenario = self._order, self._tenant, self._order.scenario
        turns = tenant.sessions.turns if tenant.sessions else 1.0
        times = arrivals(
            per_s=per_s / turns,
            duration_s=order.duration_s,
            cv=tenant.cv or scenario.cv,
            curve=fits.load(scenario.hours_of).hours if scenario.hours_of else scenario.curve,
            chance=self._chance,
        )
        for at_s in times:
            if tenant.from_part <= at_s / order.duration_s < tenant.until_part:
                yield Session(at_s=round(at_s, 6), tenant=tenant.name, turns=tuple(self._turns()))

    def _turns(self) -> Iterator[Turn]:
        """Yield a session's turns; each begins with all that was said before, while that fits."""
        chance, sessions = self._chance, self._tenant.sessions
        told: tuple[Piece, ...] = ()
        for number in range(_turns(sessions.turns, chance) if sessions else 1):
            think_s = chance.expovariate(1 / sessions.think_s) if number and sessions and sessions.think_s else 0.0
            turn = self.turn(told, round(think_s, 6))
            yield turn
            told = (*turn.pieces, (f"{turn.pieces[-1][0]}-answer", turn.output_tokens))

    def turn(self, told: tuple[Piece, ...] = (), think_s: float = 0.0) -> Turn:
        tenant, chance, sizes = self._tenant, self._chance, self._order.sizes
        rank = chance.random()
        fresh = self._writer.prompt(sizes.prompt(value_at(self._lengths.prompt_tokens, rank)), rank)
        output = sizes.output(value_at(self._lengths.output_tokens, chance.random()))
        unary, slow, leaves = (
            chance.random() < ratio for ratio in (tenant.unary_ratio, tenant.slow_ratio, tenant.leaving_ratio)
        )
        return Turn(
            pieces=(*told, *fresh) if length((*told, *fresh)) <= sizes.max_prompt_tokens else fresh,
            output_tokens=output,
            think_s=think_s,
            unary=unary,
            slow=slow and not unary,
            leaves_after_tokens=chance.randint(1, output) if leaves and not unary else 0,
        )


def _turns(mean: float, chance: random.Random) -> int:
    """Return how many turns a session has: after each one it goes on with the same chance."""
    turns = 1
    while chance.random() > 1 / mean:
        turns += 1
    return turns


def _replayed(order: Order, path: Path) -> Iterator[Session]:
    """Yield a trace's requests at its own times, or stretched to a wished rate; tenants by their weights."""
    asked, chance = traces.read(path), random.Random(order.seed)
    stretch = len(asked) / asked[-1].at_s / order.per_s if order.per_s else 1.0
    tenants = order.mix.tenants
    for number, one in enumerate(asked):
        at_s = one.at_s * stretch
        if at_s >= order.duration_s:
            return
        tenant = chance.choices(tenants, [each.weight for each in tenants])[0]
        words, output = order.sizes.prompt(one.prompt_tokens), order.sizes.output(one.output_tokens)
        turn = Turn(pieces=_pieces(one.blocks, words, number, order.sizes), output_tokens=output)
        yield Session(at_s=round(at_s, 6), tenant=tenant.name, turns=(turn,))


def _pieces(blocks: Sequence[int], words: int, number: int, sizes: Sizes) -> tuple[Piece, ...]:
    """Return a prompt of a trace's blocks, each as long as the scale makes it; the last one is what is left."""
    if not blocks:
        return ((f"request-{number}", words),)
    whole = sizes.prompt(traces.BLOCK_TOKENS)
    sized = [(f"block-{block}", min(whole, words - at * whole)) for at, block in enumerate(blocks)]
    return tuple((name, size) for name, size in sized if size > 0)
