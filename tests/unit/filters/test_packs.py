"""Packs: what is read, what is refused in words, and the strictest of several."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from penstock.domain.errors import InvalidField
from penstock.domain.ids import TenantId
from penstock.domain.jobs.webhook import secret_text
from penstock.domain.tenancy.keys import mint
from penstock.filters import reading, shipped
from penstock.filters.pack import Action, AtBound, Hold, Mode, Pack, Rule, Where, strictest
from penstock.filters.whole import matched

RULE: Mapping[str, object] = {"name": "key", "category": "secrets", "action": "block", "regex": r"\bkey-[0-9]{4}\b"}


def pack_of(rule: Mapping[str, object] | None = None, fields: Mapping[str, object] | None = None) -> bytes:
    return json.dumps({"id": "own", "version": 1, "rules": [{**RULE, **(rule or {})}], **(fields or {})}).encode()


@pytest.mark.parametrize("name", shipped.NAMES)
def test_shipped_packs_are_valid(name: str) -> None:
    """Each pack that ships passes its own examples and has the name of its file."""
    pack = shipped.pack(name)
    assert (pack.id, pack.digest) == (name, sha256(pack.text.encode()).hexdigest())


@pytest.mark.parametrize("name", shipped.NAMES)
def test_shipped_packs_have_digests(name: str) -> None:
    """Each can be stored, also one without a rule, and is the same when it is read again."""
    pack = shipped.pack(name)
    assert reading.parse(json.dumps(msgspec.to_builtins(pack)).encode()).digest == pack.digest


def test_digests_are_those_of_other_processes() -> None:
    """Whatever the order of sets there: a gateway and a controller name a pack alike."""
    says = "from penstock.filters import shipped; print([shipped.pack(one).digest for one in shipped.NAMES])"
    seeds = [{**os.environ, "PYTHONHASHSEED": str(seed)} for seed in range(4)]
    command = [sys.executable, "-c", says]
    found = {subprocess.run(command, env=seed, capture_output=True, check=True).stdout for seed in seeds}
    assert found == {f"{[shipped.pack(one).digest for one in shipped.NAMES]}\n".encode()}


@pytest.mark.parametrize("name", shipped.NAMES)
def test_each_shipped_rule_has_an_example(name: str) -> None:
    """No rule ships that was never seen to match."""
    pack = shipped.pack(name)
    assert {rule.name for rule in pack.rules} == {example.rule for example in pack.examples.match}


@pytest.mark.parametrize(
    ("rule", "issued"),
    [
        ("penstock-key", lambda: mint(TenantId("acme"), pepper=b"p" * 32, now=0.0)[0]),
        ("webhook-secret", lambda: secret_text(os.urandom(32))),
        ("private-key", lambda: _pem(ec.generate_private_key(ec.SECP256R1()), PrivateFormat.PKCS8)),
        ("private-key", lambda: _pem(ec.generate_private_key(ec.SECP256R1()), PrivateFormat.TraditionalOpenSSL)),
        ("private-key", lambda: _pem(ed25519.Ed25519PrivateKey.generate(), PrivateFormat.OpenSSH)),
    ],
)
def test_what_an_issuer_writes_is_caught(rule: str, issued: Callable[[], str]) -> None:
    """Secrets fresh from their issuers match the rule of their name, with text around them."""
    texts = [f"use {issued()} here" for _ in range(50)]
    assert all(rule in found for found in matched(shipped.pack("secrets"), texts))


def _pem(key: PrivateKeyTypes, form: PrivateFormat) -> str:
    return key.private_bytes(Encoding.PEM, form, NoEncryption()).decode()


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("off", "5bb14ca746d0092ff747f21a7a35fc1fcdf354bfbb0e0203031f83adbf8a288f"),
        ("pii", "53ac22530e1a1b9951698208f4125d9b0e1c0dd2cf4b486cff2bdd84204864a4"),
    ],
)
def test_a_stored_pack_keeps_its_digest(name: str, digest: str) -> None:
    """Packs of the same rules have the digest under which earlier releases stored them, also without rules."""
    assert shipped.pack(name).digest == digest


def test_a_digest_changes_with_the_rules_alone() -> None:
    """Two texts of one pack have one digest, a changed rule another."""
    read = reading.parse(pack_of())
    same, other = reading.parse(b"# a comment\n" + pack_of()), reading.parse(pack_of({"action": "observe"}))
    assert read.digest == same.digest != other.digest


CONFIRM: Mapping[str, object] = {"model": "minilm", "like": ["I will hurt you"], "threshold": 0.5}
GUARD = {"model": "guard", "prompt": "{text}", "unsafe": "unsafe", "safe": "safe", "threshold": 0.5}
WIDE = {"span": 1_024, "regex": r"\b[a-zA-Z0-9 ]{1,510}xx[a-zA-Z0-9 ]{1,500}\b"}
"""One rule within all other bounds: 4,046 instructions."""


@pytest.mark.parametrize(
    ("rule", "field", "words"),
    [
        ({"regex": "a*"}, "rules[0].regex", "without a bound"),
        ({"regex": "(a{1,9}){1,999}"}, "rules[0].regex", "more than its span"),
        ({"regex": r"(a)\1"}, "rules[0].regex", "linear time"),
        ({"regex": "a(?=b)"}, "rules[0].regex", "linear time"),
        ({"regex": "a{0,3}"}, "rules[0].regex", "empty text"),
        ({"regex": "[^a]b"}, "rules[0].regex", "negated class"),
        ({"regex": "(a"}, "rules[0].regex", "no regular expression"),
        ({"regex": "ä"}, "rules[0].regex", "write it as a phrase"),
        ({"regex": "a" * 2_001}, "rules[0].regex", "characters"),
        ({"regex": "a b"}, "rules[0].span", "white space"),
        ({"span": "digits"}, "rules[0].span", "alone"),
        ({"span": 10_000_000}, "rules[0].span", "1,024"),
        ({"regex": "", "phrases": ["a  b"]}, "rules[0].phrases[0]", "two in a row"),
        ({"regex": "", "phrases": [""]}, "rules[0].phrases[0]", "NFKC"),
        ({"regex": "", "phrases": ["a\u200bb"]}, "rules[0].phrases[0]", "invisible"),
        ({"regex": "", "phrases": ["\u200b"]}, "rules[0].phrases[0]", "invisible"),
        ({"phrases": ["both"]}, "rules[0].regex", "one of them"),
        ({"action": "mask"}, "rules[0].action", "never rewritten"),
        ({"check": "luhn"}, "rules[0].span", "digits"),
        ({"name": "A key"}, "rules[0].name", "lower-case"),
        ({"regex": "", "judge": "unknown", "threshold": 0.5}, "rules[0].judge", "toxicity"),
        ({"regex": "", "judge": "toxicity"}, "rules[0].threshold", "above 0"),
        ({"judge": "toxicity", "threshold": 0.5}, "rules[0].regex", "one of them"),
        ({"threshold": 0.5}, "rules[0].judge", "with a threshold"),
        ({"regex": "", "judge": "toxicity", "threshold": 0.5, "check": "luhn"}, "rules[0].check", "for a regex"),
        ({"confirm": {**CONFIRM, "like": []}}, "rules[0].confirm.like", "one of them"),
        ({"confirm": {**CONFIRM, "like": [""]}}, "rules[0].confirm.like", "1 to 16"),
        ({"confirm": {**CONFIRM, "prompt": "{text}"}}, "rules[0].confirm.like", "one of them"),
        ({"confirm": {**CONFIRM, "safe": "no"}}, "rules[0].confirm.unsafe", "guard model"),
        ({"confirm": {**GUARD, "prompt": "text"}}, "rules[0].confirm.prompt", "{text} once"),
        ({"confirm": {**GUARD, "unsafe": ""}}, "rules[0].confirm.unsafe", "a word"),
        ({"confirm": {**GUARD, "safe": "Unlike"}}, "rules[0].confirm.safe", "tell them apart"),
        ({"confirm": {**CONFIRM, "model": ""}}, "rules[0].confirm.model", "empty"),
        ({"confirm": {**CONFIRM, "threshold": 2}}, "rules[0].confirm.threshold", "at most 1"),
        ({"confirm": {**CONFIRM, "seconds": 99}}, "rules[0].confirm.seconds", "at most 30"),
        ({"confirm": {**CONFIRM, "modle": "x"}}, "rules[0].confirm.modle", "no field"),
        ({"actoin": "block"}, "rules[0].actoin", "no field"),
        ({"action": "delete"}, "pack", "$.rules[0].action"),
    ],
)
def test_a_rule_outside_the_bounds_is_refused(rule: Mapping[str, object], field: str, words: str) -> None:
    """A rule that can't be judged in bounded time names its field and the remedy."""
    with pytest.raises(InvalidField) as refused:
        reading.parse(pack_of(rule))
    assert refused.value.param == field
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"id": "Own!"}, "lower-case"),
        ({"version": 0}, "1 or more"),
        ({"hold": {"seconds": 1e9}}, "at most 60"),
        ({"hold": {"characters": 6}}, "hold.characters"),
        ({"hold": {"seconds": 1}, "rules": [{**RULE, "confirm": CONFIRM}]}, "longer than hold.seconds"),
        ({"hold": {"characters": 128}, "rules": [{**RULE, "confirm": CONFIRM}]}, "hold.characters is 128"),
        ({"rules": [RULE, RULE]}, "twice"),
        (
            {"hold": {"characters": 4096}, "rules": [{**RULE, "name": f"r{n}", **WIDE} for n in range(5)]},
            "instructions",
        ),
        ({"rules": [{**RULE, "regex": "", "phrases": [f"phrase {n}" for n in range(5_001)]}]}, "split the pack"),
        ({"examples": {"match": [{"text": "key-12"}]}}, "not matched"),
        ({"examples": {"not_match": ["key-1234"]}}, "matched by key"),
    ],
)
def test_a_pack_outside_the_bounds_is_refused(fields: Mapping[str, object], words: str) -> None:
    """A pack whose bounds or own examples fail is refused as a whole."""
    with pytest.raises(InvalidField, match=words):
        reading.parse(pack_of(fields=fields))


@pytest.mark.parametrize(
    "text", [b"a: [", b"\xff\xfe\x00", b"x" * (1 << 20 | 1), b"- a\n", b"[" * 100_000, b"a: &a 1\nb: *a"]
)
def test_what_is_no_pack_is_refused(text: bytes) -> None:
    """Bytes that are no YAML mapping, or too many, are a refusal and no crash."""
    with pytest.raises(InvalidField):
        reading.parse(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("mode: observe\nmode: enforce", 4),
        ("rules:\n- {name: a, category: b, action: block, regex: xyz,\n   action: observe}", 5),
        ("hold: {side: block}\n'hold': {side: release}", 4),
        ("rules:\n- {<<: {action: block}, name: a, action: observe}", 4),
    ],
)
def test_a_key_that_stands_twice_is_refused(text: str, line: int) -> None:
    """Which of two values was meant can't be known: the line is named."""
    with pytest.raises(InvalidField, match=f"line {line}: .* stands twice in one object, leave one out"):
        reading.parse(f"id: own\nversion: 1\n{text}\n".encode())


def test_a_hundred_thousand_phrases_are_refused_before_they_are_compiled() -> None:
    """A pack of 100,000 phrases names the remedy."""
    phrases = [f"p{n}" for n in range(100_000)]
    with pytest.raises(InvalidField, match="split"):
        reading.parse(pack_of({"regex": "", "phrases": phrases}))


FLOOR = Pack(
    id="floor",
    version=1,
    rules=(Rule(name="floor", action=Action.BLOCK, category="c", regex="a", stages=frozenset({Where.OUTPUT})),),
    hold=Hold(seconds=5.0, side=AtBound.RELEASE),
)


def test_a_tenant_cannot_go_below_the_floor() -> None:
    """Of equal rules the strictest action stays, at each stage that one of the packs names."""
    lax = replace(FLOOR, id="lax", mode=Mode.OBSERVE, rules=(replace(FLOOR.rules[0], stages=frozenset({Where.INPUT})),))
    policy = strictest([FLOOR, lax, shipped.pack("off")])
    assert [(one.rule.action, one.pack, one.rule.stages) for one in policy.rules] == [
        (Action.BLOCK, "floor@1", frozenset(Where))
    ]


def test_the_longest_hold_and_the_blocking_side_win() -> None:
    """Bounds of several packs are those that let the least pass unjudged."""
    other = replace(FLOOR, id="other", hold=Hold(seconds=1.0, side=AtBound.BLOCK))
    assert strictest([FLOOR, other]).hold == Hold(seconds=5.0, side=AtBound.BLOCK)


def test_a_pack_that_observes_never_acts() -> None:
    """In mode observe each rule only records, and no bound ends an answer."""
    blocking = replace(FLOOR, hold=Hold(side=AtBound.BLOCK))
    policy = strictest([replace(blocking, mode=Mode.OBSERVE)])
    (one,) = policy.rules
    assert (one.rule.action, policy.hold.side) == (Action.OBSERVE, AtBound.RELEASE)
    assert strictest([blocking]).hold.side is AtBound.BLOCK
