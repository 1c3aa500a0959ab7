"""Selects the tenants of an engine's next step: a tenant above its share pauses while a prompt of a tenant below its
share is prefilled.

A decoding sequence lengthens each step, and a prompt takes the rest of the step. Pure.

Trade-off: a paused tenant makes no tokens, for ``MOST_STILL`` steps in a row at most. Only tenants above their share of
sequences and of recent service are paused.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.fairness.fading import Fading

MOST_STILL = 4
"""The most consecutive steps of a pause; all tenants take part in the next step."""

SERVED_SLACK = 1.25
"""The tolerated ratio of recent service to share: a tenant above it may be paused, a tenant below it has its prompts
prefilled first.
"""

SERVED_HALF_S = 10.0
"""The half-life of recent service in seconds."""

ABOUT_S = 30.0
"""Seconds for which a tenant counts as present after its last step."""

PROMPT_PART = 0.25
"""The part of a step for one prompt of a tenant above its share while others are present: new requests wait for the
running step.
"""


def prompt_bound(step_tokens: int, set_bound: int = 0, *, part: float = PROMPT_PART) -> int:
    """Bound a step's prompt tokens beside other tenants; ``set_bound`` is the engine's own bound."""
    ours = round(part * step_tokens)
    return min(ours, set_bound) if set_bound else ours


@dataclass(slots=True)
class Inside:
    name: str
    weight: float
    sequences: int = 0
    prompts: int = 0


@dataclass(frozen=True, slots=True)
class Turnout:
    still: frozenset[str] = frozenset()
    prompt_part: float = 1.0


EVERYBODY = Turnout()


@dataclass(slots=True)
class _Known:
    weight: float
    tokens: float = 0.0
    at: float = 0.0

    def lately(self, now: float) -> float:
        return Fading(self.tokens, self.at).now(now, SERVED_HALF_S)


@dataclass(slots=True)
class Stepping:
    _about: dict[str, _Known] = field(default_factory=dict)
    _still_steps: int = 0
    is_shared: bool = False
    """Whether several tenants are present: service without others is not counted."""

    def next(self, here: Sequence[Inside], now: float) -> Turnout:
        self._see(here, now)
        self.is_shared = len(here) > 1
        over = self._over(here) if len(self._about) > 1 else frozenset[str]()
        still = self._still(here, over) if over and self._still_steps < MOST_STILL else frozenset[str]()
        self._still_steps = self._still_steps + 1 if still else 0
        if still:
            return Turnout(still=still)
        reading = [one.name for one in here if one.prompts]
        return Turnout(prompt_part=PROMPT_PART) if reading and over.issuperset(reading) else EVERYBODY

    def served(self, name: str, tokens: float, now: float) -> None:
        """A tenant alone in the engine is charged nothing."""
        if not self.is_shared:
            return
        known = self._about[name]
        known.tokens, known.at = known.lately(now) + tokens, now

    def _see(self, here: Sequence[Inside], now: float) -> None:
        for one in here:
            known = self._about.setdefault(one.name, _Known(one.weight, at=now))
            known.tokens, known.at, known.weight = known.lately(now), now, one.weight
        if len(self._about) > len(here):
            self._about = {name: known for name, known in self._about.items() if known.at >= now - ABOUT_S}

    def _over(self, here: Sequence[Inside]) -> frozenset[str]:
        """A single sequence is always within the share."""
        share = sum(one.sequences for one in here) / sum(known.weight for known in self._about.values())
        return frozenset(one.name for one in here if one.sequences > max(1.0, share * one.weight))

    def _still(self, here: Sequence[Inside], over: frozenset[str]) -> frozenset[str]:
        """Above their share of sequences and of recent service, while a tenant below its share prefills."""
        tokens = {one.name: self._about[one.name].tokens for one in here}  # as of now: everybody here was just seen
        lately = {one.name: tokens[one.name] / one.weight for one in here}
        mean = sum(tokens.values()) / sum(one.weight for one in here)
        first = any(one.prompts and one.name not in over and lately[one.name] <= SERVED_SLACK * mean for one in here)
        return frozenset(name for name in over if SERVED_SLACK * lately[name] >= mean) if first else frozenset()
