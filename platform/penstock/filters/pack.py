"""Policy packs as values: rules, bounds of what is held back, and the strictest of several packs. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from typing import Literal, NamedTuple

import msgspec


class Action(StrEnum):
    OBSERVE = "observe"
    MASK = "mask"
    """Each matched character becomes ``*``; in a tool call's arguments it blocks, since altered arguments act."""
    BLOCK = "block"

    @property
    def severity(self) -> int:
        return _BY_SEVERITY.index(self)


_BY_SEVERITY = (Action.OBSERVE, Action.MASK, Action.BLOCK)


class Mode(StrEnum):
    OBSERVE = "observe"
    """No rule acts; each match is recorded."""
    ENFORCE = "enforce"


class AtBound(StrEnum):
    """What happens to held text if a bound is met before it is judged."""

    BLOCK = "block"
    RELEASE = "release"


class Where(StrEnum):
    INPUT = "input"
    OUTPUT = "output"


class Check(StrEnum):
    """A check of what a regex found; the match is what passes."""

    LUHN = "luhn"
    IBAN = "iban"


_LATER, _LATER_OF_CONFIRM = ("judge", "threshold", "confirm"), ("prompt", "unsafe", "safe")
"""Fields that came later: stored packs keep their digests."""
Span = Literal["word", "digits"] | int
"""What a match may extend over: no white space; a run of digits and their separators; a number of characters."""
EVERYWHERE = frozenset(Where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirm:
    """A model has to confirm the match's sentence: an encoder finds it ``like`` an example, or a guard model answers a
    ``prompt``.
    """

    model: str
    """An alias or a version."""
    threshold: float
    """The least that is a match: of the cosine to an example, or of ``unsafe``'s share of the chances of both words."""
    like: tuple[str, ...] = ()
    prompt: str = ""
    """Has ``{text}`` once; the guard model's next word is ``unsafe`` or ``safe``."""
    unsafe: str = ""
    safe: str = ""
    seconds: float = 2.0
    away: AtBound = AtBound.BLOCK
    """What a match is if the model does not answer within ``seconds``: it stands, or is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One of ``regex`` with its ``span``, ``phrases`` (whole words, in any case), ``judge`` with its ``threshold``."""

    name: str
    action: Action
    category: str
    regex: str = ""
    span: Span = "word"
    phrases: tuple[str, ...] = ()
    check: Check | None = None
    judge: str = ""
    """A classifier of sentences."""
    threshold: float = 0.0
    """The least of its scores, which are 0 to 1, that is a match."""
    confirm: Confirm | None = None
    stages: frozenset[Where] = EVERYWHERE


class Found(NamedTuple):
    """``rule`` is the index of the rule; ``start`` and ``end`` count judged bytes, or characters of the text."""

    rule: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """The most that may be held back, in each choice; ``side`` decides when a bound is met."""

    characters: int = 512
    tokens: int = 128
    seconds: float = 60.0
    side: AtBound = AtBound.BLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    text: str
    rule: str = ""
    """The rule that must match; any, if empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    match: tuple[Example, ...] = ()
    not_match: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Pack:
    id: str
    version: int
    mode: Mode = Mode.ENFORCE
    rules: tuple[Rule, ...] = ()
    hold: Hold = Hold()
    examples: Examples = Examples()

    @cached_property
    def text(self) -> str:
        """The pack as it is stored: what its digest covers."""
        raw = msgspec.to_builtins(self, order="sorted")  # sets have another order in each process
        for rule in raw.get("rules", ()):  # a decoded pack lacks what its text leaves out
            for part, later in ((rule, _LATER), (rule.get("confirm") or {}, _LATER_OF_CONFIRM)):
                for name in later:
                    if not part.get(name):
                        part.pop(name, None)
        return msgspec.json.encode(raw, order="sorted").decode()

    @cached_property
    def digest(self) -> str:
        return sha256(self.text.encode()).hexdigest()

    @property
    def name(self) -> str:
        return f"{self.id}@{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A rule as a policy applies it, and its pack; ``wanted`` is its own action, also if the pack only observes."""

    rule: Rule
    wanted: Action
    pack: str
    digest: str

    @property
    def _what(self) -> tuple[object, ...]:
        rule = self.rule
        return rule.regex, rule.phrases, rule.check, rule.judge, rule.threshold, rule.confirm


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What holds for one request: rules of all its packs, and the hold bounds that let the least pass."""

    rules: tuple[Applied, ...] = ()
    hold: Hold = Hold()
    bound: Applied | None = None
    """What is recorded if a bound of ``hold`` is met: the side taken, and the pack that says so."""

    @cached_property
    def digest(self) -> str:
        return sha256(msgspec.json.encode(self, order="sorted")).hexdigest()

    def on(self, where: Where) -> tuple[Applied, ...]:
        return tuple(one for one in self.rules if where in one.rule.stages)


def strictest(packs: Iterable[Pack]) -> Policy:
    """Return the union of the packs' rules: of equal rules the strictest, at each stage that one of them names."""
    found: dict[tuple[object, ...], Applied] = {}
    bounding = list[Pack]()
    for pack in packs:
        if pack.rules:
            bounding.append(pack)
        for rule in pack.rules:
            one = Applied(rule=_in_mode(rule, pack.mode), wanted=rule.action, pack=pack.name, digest=pack.digest)
            found[one._what] = _stricter(found.get(one._what, one), one)  # noqa: SLF001 - its own module's
    if not bounding:
        return Policy()
    hold = _longest(bounding)
    return Policy(rules=tuple(found.values()), hold=hold, bound=_bound(bounding, hold.side))


def _in_mode(rule: Rule, mode: Mode) -> Rule:
    return rule if mode is Mode.ENFORCE else replace(rule, action=Action.OBSERVE)


def _stricter(one: Applied, other: Applied) -> Applied:
    lead = max(one, other, key=lambda applied: applied.rule.action.severity)
    return replace(lead, rule=replace(lead.rule, stages=one.rule.stages | other.rule.stages))


def _side(pack: Pack) -> AtBound:
    return pack.hold.side if pack.mode is Mode.ENFORCE else AtBound.RELEASE


def _longest(packs: Sequence[Pack]) -> Hold:
    return Hold(
        characters=max(pack.hold.characters for pack in packs),
        tokens=max(pack.hold.tokens for pack in packs),
        seconds=max(pack.hold.seconds for pack in packs),
        side=AtBound.BLOCK if AtBound.BLOCK in map(_side, packs) else AtBound.RELEASE,
    )


def _bound(packs: Sequence[Pack], side: AtBound) -> Applied:
    of = next(pack for pack in packs if _side(pack) is side)
    action = Action.BLOCK if side is AtBound.BLOCK else Action.OBSERVE
    return Applied(
        rule=Rule(name="hold", action=action, category="hold"), wanted=action, pack=of.name, digest=of.digest
    )
