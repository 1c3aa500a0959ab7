"""Holds text back while a rule may still match it, and no longer. Pure.

Text may leave as soon as no match can cover it any more. A match is a run of its rule's characters, of a known length,
or a phrase, the beginning of which the trie knows: only the run or phrase in progress is held, and only it is judged
again. The verdict depends on the text alone, not on its cuts. Trade-off: a rule over letters and blanks would hold its
whole length of any prose.
"""

from collections.abc import Sequence
from copy import copy
from functools import lru_cache
from typing import NamedTuple

from penstock.filters import shape
from penstock.filters.judge import Judge
from penstock.filters.normal import Reading, ends, folded, forms, normal, starts, unescaped
from penstock.filters.pack import Applied, Confirm, Found, Policy, Rule, Where
from penstock.filters.sentences import Sentences
from penstock.filters.trie import Trie, start

_MOST_STEPS, _STEP_BYTES = 4_096, 16
"""Steps that a policy remembers, and the bytes of one: 1 MB, and most tokens of an answer come again."""


_NONE: Sequence[Found] = ()


class Run(NamedTuple):
    """Characters of which matches consist, those of them that begin none, and the most of a match."""

    alphabet: bytes
    later: bytes
    most: int


def runs(rules: Sequence[Rule]) -> tuple[Run, ...]:
    """Return one run for all words, one for all numbers, and one for each other rule's own characters."""
    kinds: dict[object, list[shape.Shape]] = {}
    for rule in rules:
        if rule.regex:
            own = shape.of(rule.regex)
            kinds.setdefault(own.alphabet if isinstance(rule.span, int) else rule.span, []).append(own)
    return tuple(map(_run, kinds.values()))


def _run(shapes: Sequence[shape.Shape]) -> Run:
    alphabet = frozenset().union(*(one.alphabet for one in shapes))
    later = alphabet.difference(*(one.first for one in shapes))
    return Run("".join(alphabet).encode(), "".join(later).encode(), max(one.most for one in shapes))


class Compiled:
    """A policy's rules for one side of a request; built off the event loop, shared by all requests of the policy."""

    __slots__ = ("_trie", "confirms", "judge", "known_step", "policy", "rules", "runs_of")

    def __init__(self, policy: Policy, where: Where) -> None:
        self.policy = policy
        self.rules: tuple[Applied, ...] = policy.on(where)
        plain = [one.rule for one in self.rules]
        self.judge = Judge(plain)
        self.confirms = any(rule.confirm is not None for rule in plain)
        wide = sorted(runs(plain), key=lambda run: -len(run.alphabet))
        self.runs_of = {byte: tuple(run for run in wide if byte in run.alphabet) for byte in range(256)}
        """The runs that may still go on after a byte."""
        every = (form for rule in plain for phrase in rule.phrases for form in forms(phrase))
        self._trie = Trie(folded(form.encode()) for form in every)
        self.known_step = lru_cache(_MOST_STEPS)(self.step)

    def step(self, state: int, judged: bytes) -> tuple[int, int, bool]:
        """Return the trie's state after these bytes, and what is ``held`` of them."""
        state = self._trie.walk(state, judged)
        return state, *self.held(state, judged)

    def held(self, state: int, judged: bytes) -> tuple[int, bool]:
        """Return the bytes at the end with which a match may go on, and whether one may have begun before them all."""
        size, held, is_open = len(judged), 0, not judged
        for alphabet, later, most in self.runs_of[judged[-1]] if judged else ():
            begun = len(judged.rstrip(alphabet))
            is_open |= not begun
            if size - begun > held:
                held = max(held, len(judged[max(begun, size - most) :].lstrip(later)))
        if depth := self._trie.depth(state):
            begun = start(judged, depth)
            return max(held, size - begun), is_open or not begun
        return held, is_open

    def confirm(self, rule: int) -> Confirm | None:
        return self.rules[rule].rule.confirm


class Tail:
    """One text as it arrives: ``safe`` of its ``total`` characters may leave. A text that goes on after its end is
    judged together with what was held then.
    """

    __slots__ = ("_before", "_compiled", "_held", "_known", "_read", "_sentences", "_state", "safe", "total")

    def __init__(self, compiled: Compiled) -> None:
        self._compiled, self._read = compiled, normal
        self._before = b""
        """The last judged byte that has left, for word boundaries."""
        self._held = ""
        self._sentences = Sentences(compiled.judge.classifiers) if compiled.judge.classifiers else None
        self._known = self._state = 0
        self.safe = self.total = 0

    def unescaped(self) -> "Tail":
        """Return a copy that reads what follows as the inside of JSON strings."""
        other = copy(self)
        other._read = unescaped  # noqa: SLF001 - its own class's
        if self._sentences is not None:
            other._sentences = self._sentences.copy()  # noqa: SLF001
        return other

    def agrees(self, other: "Tail") -> bool:
        """Whether both go on alike until a backslash comes."""
        if "\\" in self._held or self._place != other._place:  # noqa: SLF001
            return False
        return self._sentences is None or other._sentences is None or self._sentences.agrees(other._sentences)  # noqa: SLF001

    @property
    def _place(self) -> tuple[bytes, str, int, int, int]:
        return self._before, self._held, self._known, self._state, self.safe

    def feed(self, text: str, *, is_last: bool = False) -> Sequence[Found]:
        """Return the matches that are certain now, in characters since the beginning; some may be told again."""
        self.total = total = self.total + len(text)
        self._held += text
        reading, compiled, found = self._read(self._held), self._compiled, _NONE
        judged = reading[0]
        sentences = _NONE if self._sentences is None else self._of_sentences(self._sentences, reading, is_last=is_last)
        fresh, held = judged[self._known :], 0
        if judged:
            step = compiled.known_step if len(fresh) <= _STEP_BYTES else compiled.step
            self._state, held, is_open = step(self._state, fresh)
            if is_open:
                held, _ = compiled.held(self._state, judged)
            if compiled.judge.suspects(self._before + judged):
                found = self._certain(compiled.judge.find(self._before + judged), reading, is_last=is_last)
        if reading[2] is None:
            if left := len(judged) - held:
                self._before, self._held = judged[left - 1 : left], self._held[left:]
            self._known = held
        else:
            self._leave(reading, reading[2], len(judged) - held)
        safe = total if is_last else total - len(self._held)
        if self._sentences is not None and not is_last:
            safe = min(safe, self._sentences.held_from(safe))
        if safe > self.safe:  # noqa: PLR1730 - for each token
            self.safe = safe
        return [*found, *sentences] if sentences else found

    def _of_sentences(self, sentences: Sentences, reading: Reading, *, is_last: bool) -> Sequence[Found]:
        """Judge what was not read before by its sentences."""
        first, known = self.total - len(self._held), self._known
        firsts, lasts = ([first + at for at in places[known:]] for places in (starts(reading), ends(reading)))
        return list(sentences.feed(reading[0][known:], firsts, lasts, is_last=is_last))

    def _certain(self, hits: Sequence[Found], reading: Reading, *, is_last: bool) -> list[Found]:
        """Return the hits but those that left before, and those at the end, which the next character may change."""
        context, first, size = len(self._before), self.total - len(self._held), len(reading[0])
        firsts, lasts = starts(reading), ends(reading)
        return [
            Found(rule, first + firsts[start - context], first + lasts[end - context - 1])
            for rule, start, end in hits
            if start >= context and (is_last or end - context < size)
        ]

    def _leave(self, reading: Reading, firsts: Sequence[int], safe: int) -> None:
        judged, left = reading[:2]
        if safe < len(judged):
            left = firsts[safe]
            while safe and firsts[safe - 1] == left:  # a character of several bytes leaves as a whole
                safe -= 1
        if safe:
            self._before = judged[safe - 1 : safe]
        self._known = len(judged) - safe
        self._held = self._held[left:]
