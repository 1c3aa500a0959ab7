"""Reads a pack from YAML and refuses what can't be judged in bounded time and memory, before it is used.

Trade-off: a rule outside the bounds is refused, not served slowly.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import msgspec
import re2
import yaml

from penstock.domain.errors import InvalidField
from penstock.filters import confirming, shape
from penstock.filters.judge import options
from penstock.filters.normal import normal
from penstock.filters.pack import Action, Check, Confirm, Examples, Hold, Pack, Rule, Where
from penstock.filters.sentences import JUDGES, MOST_BYTES
from penstock.filters.whole import matched
from penstock.formats.documents import DocumentRefused, NamesOnce

MOST_PACK_BYTES = 1 << 20
"""Bytes of a pack: read and checked within two seconds."""
MOST_RULES = 200
MOST_PHRASES = 5_000
"""Phrases of a pack: they compile within a second."""
MOST_CHARACTERS = 1_024
"""Characters that a match may extend over: they may all be held back."""
MOST_REGEX = 2_000
MOST_PROGRAM = 16_384
"""RE2 instructions of a pack's regexes together: 2,000 characters that none of them matches are judged in 20 ms."""
MOST_EXAMPLES, MOST_EXAMPLE = 16, 256
"""Sentences that a rule's model compares with, sent with each question; their characters."""
MOST_TEMPLATE, MOST_WORD = 8_192, 32
"""Characters of a guard model's prompt (Llama Guard's has 3,000), and of its two words."""
MOST_CONFIRM_S = 30.0
MOST_HELD = {"characters": 4_096, "tokens": 1_024, "seconds": 60.0}
_DEPTH = 6
RUN = frozenset("+0123456789() .-/_")
"""Characters of numbers as people write them, in italics too: span ``digits``."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_NAMED = "has to be 1 to 64 lower-case letters, digits and hyphens"
_SPACE = frozenset(" \t\n\r\f\v")


class _Loader(NamesOnce, yaml.CSafeLoader):
    def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002 - the library's
        self.flatten_mapping(node)
        return super().construct_mapping(node, deep=deep)


def parse(text: bytes) -> Pack:
    """Return the pack, or raise ``InvalidField`` with the field at fault and the remedy."""
    if len(text) > MOST_PACK_BYTES:
        raise InvalidField(f"a pack has at most {MOST_PACK_BYTES:,} bytes: split it into several packs", param="pack")
    try:
        _bounded(text)
        raw = yaml.load(text, _Loader)  # noqa: S506 - a kind of SafeLoader
        pack = msgspec.convert(raw, Pack)
    except DocumentRefused as error:
        says = f"line {error.line}: {error.twice[:64]} stands twice in one object, leave one out"
        raise InvalidField(says, param="pack") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        raise InvalidField(f"is no YAML{'' if where is None else f': line {where.line + 1}'}", param="pack") from error
    except msgspec.ValidationError as error:
        raise InvalidField(str(error), param="pack") from error
    for field in _unknown(raw):
        raise InvalidField(f"{field} is no field of a pack", param=field)
    check(pack)
    return pack


def _bounded(text: bytes) -> None:
    """Refuse aliases and deep nesting: the loader itself would run out of stack."""
    depth = 0
    for event in yaml.parse(text, yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEPTH or isinstance(event, yaml.AliasEvent):
            raise InvalidField(f"has an alias, or more than {_DEPTH} levels", param="pack")


def _unknown(raw: dict[str, Any]) -> Iterator[str]:
    parts: list[tuple[str, dict[str, Any], type]] = [
        ("", raw, Pack),
        ("hold.", raw.get("hold", {}), Hold),
        ("examples.", raw.get("examples", {}), Examples),
        *((f"rules[{at}].", rule, Rule) for at, rule in enumerate(raw.get("rules", []))),
        *(
            (f"rules[{at}].confirm.", rule.get("confirm") or {}, Confirm)
            for at, rule in enumerate(raw.get("rules", []))
        ),
    ]
    for prefix, part, kind in parts:
        yield from (f"{prefix}{name}" for name in part.keys() - {field.name for field in fields(kind)})


def check(pack: Pack) -> None:
    """Raise ``InvalidField`` unless every rule is bounded and linear and the pack's own examples hold."""
    for field, fault in _faults(pack):
        raise InvalidField(f"{field} {fault}", param=field)


def _faults(pack: Pack) -> Iterator[tuple[str, str]]:
    if not _NAME.fullmatch(pack.id):
        yield "id", _NAMED
    if pack.version < 1:
        yield "version", "has to be 1 or more"
    for name, most in MOST_HELD.items():
        if not 0 < getattr(pack.hold, name) <= most:
            yield f"hold.{name}", f"has to be above 0, at most {most:,}"
    yield from _in_rules(pack.rules)
    for at, rule in enumerate(pack.rules):
        for field, fault in (*_in_rule(rule, pack.hold.characters), *_in_confirm(rule, pack.hold)):
            yield f"rules[{at}].{field}", fault
    every = [shape.of(rule.regex).regex for rule in pack.rules if rule.regex]
    size = sum(re2.compile(one.encode(), options()).programsize for one in every)
    if size > MOST_PROGRAM:
        yield "rules", f"compile to {size:,} instructions, more than {MOST_PROGRAM:,}: bound repetitions closer"
        return
    yield from _in_examples(pack)


def _in_rules(rules: Sequence[Rule]) -> Iterator[tuple[str, str]]:
    if len(rules) > MOST_RULES:
        yield "rules", f"are more than {MOST_RULES}: join phrases of one category into one rule"
    if sum(len(rule.phrases) for rule in rules) > MOST_PHRASES:
        yield "rules", f"have more than {MOST_PHRASES:,} phrases: split the pack"
    if len({rule.name for rule in rules}) < len(rules):
        yield "rules", "have a name twice"


def _in_rule(rule: Rule, held: int) -> Iterator[tuple[str, str]]:
    if not _NAME.fullmatch(rule.name):
        yield "name", _NAMED
    if not _NAME.fullmatch(rule.category):
        yield "category", _NAMED
    if not rule.stages:
        yield "stages", "is empty: name input, output or both"
    if rule.action is Action.MASK and Where.INPUT in rule.stages:
        yield "action", "mask is for output alone, since a prompt is never rewritten: set stages: [output]"
    if sum(map(bool, (rule.regex, rule.phrases, rule.judge))) != 1:
        yield "regex", "or phrases or judge is needed: one of them"
    elif rule.judge or rule.threshold:
        yield from _in_judge(rule, held)
    elif rule.phrases:
        yield from _in_phrases(rule, held)
    else:
        yield from _in_regex(rule, held)


def _in_confirm(rule: Rule, hold: Hold) -> Iterator[tuple[str, str]]:
    if (confirm := rule.confirm) is None:
        return
    if not confirm.model:
        yield "confirm.model", "is empty: name a model of this platform"
    if bool(confirm.like) == bool(confirm.prompt):
        yield "confirm.like", "(for an encoder) or prompt (for a guard model) is needed: one of them"
    yield from _in_prompt(confirm) if confirm.prompt else _in_like(confirm)
    if not 0 < confirm.threshold <= 1:
        yield "confirm.threshold", "has to be above 0, at most 1"
    if not 0 < confirm.seconds <= MOST_CONFIRM_S:
        yield "confirm.seconds", f"has to be above 0, at most {MOST_CONFIRM_S:g}"
    if Where.OUTPUT in rule.stages:
        yield from _in_wait(confirm, hold)


def _in_wait(confirm: Confirm, hold: Hold) -> Iterator[tuple[str, str]]:
    if confirm.seconds > hold.seconds:
        yield "confirm.seconds", f"holds an answer for longer than hold.seconds ({hold.seconds:g})"
    if hold.characters <= confirming.AROUND:
        yield "confirm", f"holds {confirming.AROUND} characters behind a match: hold.characters is {hold.characters}"


def _in_like(confirm: Confirm) -> Iterator[tuple[str, str]]:
    if not 0 < len(confirm.like) <= MOST_EXAMPLES or not all(0 < len(one) <= MOST_EXAMPLE for one in confirm.like):
        yield "confirm.like", f"has to be 1 to {MOST_EXAMPLES} sentences of at most {MOST_EXAMPLE} characters"
    if confirm.unsafe or confirm.safe:
        yield "confirm.unsafe", "and safe are words of a guard model, which needs a prompt"


def _in_prompt(confirm: Confirm) -> Iterator[tuple[str, str]]:
    if confirm.prompt.count(confirming.TEXT) != 1 or len(confirm.prompt) > MOST_TEMPLATE:
        yield "confirm.prompt", f"needs {confirming.TEXT} once, and at most {MOST_TEMPLATE:,} characters"
    for name, word in (("unsafe", confirm.unsafe), ("safe", confirm.safe)):
        if not 0 < len(word) <= MOST_WORD or word != word.strip():
            yield f"confirm.{name}", f"has to be a word of at most {MOST_WORD} characters, without blanks around it"
    if confirm.unsafe[:1].casefold() == confirm.safe[:1].casefold():
        yield "confirm.safe", "begins as confirm.unsafe does: the first token could not tell them apart"


def _in_judge(rule: Rule, held: int) -> Iterator[tuple[str, str]]:
    if rule.judge not in JUDGES:
        yield "judge", f"with a threshold has to be one of {', '.join(JUDGES)}"
    if not 0 < rule.threshold <= 1:
        yield "threshold", "has to be above 0, at most 1"
    if rule.check is not None:
        yield "check", "is for a regex"
    if held < MOST_BYTES:
        yield "judge", f"holds a sentence of up to {MOST_BYTES} characters: more than hold.characters ({held})"


def _in_phrases(rule: Rule, held: int) -> Iterator[tuple[str, str]]:
    if rule.check is not None:
        yield "check", "is for a regex"
    for at, phrase in enumerate(rule.phrases):
        if not phrase or phrase != " ".join(unicodedata.normalize("NFKC", phrase).split()):
            yield f"phrases[{at}]", "has to be NFKC text without blanks at its ends or two in a row"
        elif not all(normal(one)[0] for one in phrase):
            yield f"phrases[{at}]", "has an invisible character, which is left out of each text that is judged"
        elif len(phrase) > held:
            yield f"phrases[{at}]", f"is longer than hold.characters ({held})"


def _in_regex(rule: Rule, held: int) -> Iterator[tuple[str, str]]:
    if len(rule.regex) > MOST_REGEX:
        yield "regex", f"has more than {MOST_REGEX:,} characters"
        return
    try:
        found = shape.of(rule.regex)
    except ValueError as error:
        yield "regex", str(error)
        return
    if not found.least:
        yield "regex", "matches the empty text"
    yield from _in_span(rule, found, held)
    try:
        re2.compile(found.regex.encode(), options())
    except re2.error as error:
        yield "regex", f"is refused by RE2: {error}"


def _in_span(rule: Rule, found: shape.Shape, held: int) -> Iterator[tuple[str, str]]:
    most = rule.span if isinstance(rule.span, int) else MOST_CHARACTERS
    if not 0 < most <= MOST_CHARACTERS:
        yield "span", f"has to be word, digits, or 1 to {MOST_CHARACTERS:,} characters"
    elif found.most > most:
        yield "regex", f"matches up to {found.most:,} characters: more than its span, {most:,}"
    elif found.most > held:
        yield "regex", f"matches up to {found.most:,} characters: more than hold.characters ({held})"
    if rule.span == "word" and found.alphabet & _SPACE:
        yield "span", "word has no white space, which the regex may match: give a number of characters"
    if rule.span == "digits" and found.alphabet - RUN:
        yield "span", f"digits has the characters {''.join(sorted(RUN))} alone: give a number of characters"
    if rule.check is Check.LUHN and rule.span != "digits":
        yield "span", "of a Luhn check is digits"


def _in_examples(pack: Pack) -> Iterator[tuple[str, str]]:
    wanted, others = pack.examples.match, pack.examples.not_match
    found = matched(pack, [*(one.text for one in wanted), *others])
    for at, (example, rules) in enumerate(zip(wanted, found, strict=False)):
        if not rules or (example.rule and example.rule not in rules):
            yield f"examples.match[{at}]", f"is not matched by {example.rule or 'any rule'}"
    for at, rules in enumerate(found[len(wanted) :]):
        if rules:
            yield f"examples.not_match[{at}]", f"is matched by {', '.join(sorted(rules))}"
