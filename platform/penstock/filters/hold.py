"""Holds text back while a rule may still match it, and no longer. Pure.

Text may leave as soon as no match can cover it any more. A match is a run of its rule's characters, of a known length,
or a phrase, the beginning of which the trie knows: only the run or phrase in progress is held, and only it is judged
again. The verdict depends on the text alone, not on its cuts. Trade-off: a rule over letters and blanks would hold its
whole length of any prose.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.filters import shape
from penstock.filters.judge import Found, Judge
from penstock.filters.normal import folded, normal
from penstock.filters.pack import Applied, Policy, Rule, Where
from penstock.filters.trie import Trie


@dataclass(frozen=True, slots=True)
class Run:
    """Characters of which matches consist, and the most of a match."""

    alphabet: bytes
    most: int


def runs(rules: Sequence[Rule]) -> tuple[Run, ...]:
    """Return one run for all words, one for all numbers, and one for each other rule's own characters."""
    found: dict[object, Run] = {}
    for rule in rules:
        if rule.phrases:
            continue
        own = shape.of(rule.regex)
        alphabet = "".join(sorted(own.alphabet)).encode()
        kind = alphabet if isinstance(rule.span, int) else rule.span
        before = found.get(kind, Run(b"", 0))
        found[kind] = Run(bytes({*before.alphabet, *alphabet}), max(before.most, own.most))
    return tuple(found.values())


class Compiled:
    """A policy's rules for one side of a request; built off the event loop, shared by all requests of the policy."""

    __slots__ = ("judge", "policy", "rules", "runs", "trie")

    def __init__(self, policy: Policy, where: Where) -> None:
        self.policy = policy
        self.rules: tuple[Applied, ...] = policy.on(where)
        plain = [one.rule for one in self.rules]
        self.judge = Judge(plain)
        self.runs = runs(plain)
        phrases = [folded(normal(phrase)[0]) for rule in plain for phrase in rule.phrases]
        self.trie = Trie(phrases) if phrases else None


class Tail:
    """One text as it arrives: ``safe`` of its ``total`` characters may leave."""

    __slots__ = ("_before", "_compiled", "_held", "_state", "safe", "total")

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self._before = b""
        """The last judged byte that has left, for word boundaries."""
        self._held = ""
        self._state = 0
        self.safe = self.total = 0

    def feed(self, text: str, *, is_last: bool = False) -> Sequence[Found]:
        """Return the matches that are certain now, in characters since the beginning; some may be told again."""
        self.total += len(text)
        self._held += text
        judged, owners = normal(self._held)
        if self._compiled.trie is not None and text:
            self._state = self._compiled.trie.walk(self._state, folded(normal(text)[0]))
        context = len(self._before)
        hits = self._compiled.judge.find(self._before + judged) if judged else ()
        found = hits and self._certain(hits, owners, context, len(judged), is_last=is_last)
        self._leave(judged, owners, len(judged) if is_last else self._safe(judged))
        return found

    def _certain(
        self, hits: Sequence[Found], owners: Sequence[int], context: int, size: int, *, is_last: bool
    ) -> list[Found]:
        """Return the hits but those that left before, and those at the end, which the next character may change."""
        return [
            Found(rule, self.safe + owners[start - context], self.safe + owners[end - context - 1] + 1)
            for rule, start, end in hits
            if start >= context and (is_last or end - context < size)
        ]

    def _safe(self, judged: bytes) -> int:
        size = safe = len(judged)
        for run in self._compiled.runs:
            begun = len(judged.rstrip(run.alphabet))
            safe = min(safe, max(begun, size - run.most))
        return min(safe, size - self._compiled.trie.depth[self._state]) if self._compiled.trie is not None else safe

    def _leave(self, judged: bytes, owners: Sequence[int], safe: int) -> None:
        left = owners[safe] if safe < len(judged) else len(self._held)
        # a character of several bytes leaves as a whole
        while safe and safe < len(judged) and owners[safe - 1] == left:
            safe -= 1
        if safe:
            self._before = judged[safe - 1 : safe]
        self.safe += left
        self._held = self._held[left:]
