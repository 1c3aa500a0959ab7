"""Rules of auto aliases in files."""

from pathlib import Path

import pytest

from penstock.cli import rule_file
from penstock.domain.command_error import CommandError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return where to write."""
    return tmp_path / "rules.yaml"


def test_a_file_becomes_rules(file: Path) -> None:
    """Prices are dollars in the file and whole micro-dollars for the controller; the rest goes as it stands."""
    file.write_text(
        "rules:\n- {name: short, to: small, prompt_tokens: 1000, tools: false, price: 0.40}\n- {name: rest, to: big}\n"
    )
    short, rest = rule_file.read(file)
    assert short == {
        "name": "short", "to": "small", "prompt_tokens": 1000, "tools": False, "price": 400_000, "deadline_s": 0.0,
    }  # fmt: skip
    assert (rest["to"], rest["price"]) == ("big", 0)


BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(20)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no rules"),
        ("rules: 5", "no rules"),
        ("- {name: a, to: b}", "no rules"),
        ("rules: []\nmore: 1", "no rules"),
        ("rules: [{name: a}]", "no target"),
        ("rules: [5]", "no target"),
        ("rules: [{name: a, to: b, prompt_token: 5}]", "prompt_token"),
        ("rules: [{name: a, to: b, price: .nan}]", "not finite"),
        ("rules: [{name: a, to: b, price: .inf}]", "not finite"),
        ("rules: [{name: a, to: b, price: -1}]", "price"),
        ("rules: [{name: a, to: b, price: cheap}]", "price"),
        ("rules: [{name: a, to: b, deadline_s: true}]", "deadline_s"),
        ("rules: [{name: a, to: b, deadline_s: .nan}]", "not finite"),
        ("rules: [{name: a, to: b, compare_per_s: .nan}]", "not finite"),
        ("rules: [{name: a, to: b, compare_per_s: .inf}]", "not finite"),
        ("rules: [{name: a, to: b, compare_per_s: often}]", "compare_per_s"),
        ("rules: [{name: 2026-01-01, to: b}]", "a date"),
        ("rules: [&r {name: a, to: b}, *r]", "refers to a part"),
        (BOMB, "refers to a part"),
        ("[" * 5_000, "nested too deeply"),
        ("rules: [", "no valid YAML"),
        ("!!python/object/apply:os.system [id]", "no valid YAML"),
        ("#" * (rule_file.MOST_BYTES + 1), "64 KiB"),
    ],
)
def test_what_is_no_set_of_rules_is_refused(file: Path, text: str, says: str) -> None:
    """The fault and the remedy in a sentence each; nothing grows, nothing runs."""
    file.write_text(text)
    with pytest.raises(CommandError, match=says):
        rule_file.read(file)


def test_a_file_that_is_not_there_is_said_to_be_so(file: Path) -> None:
    """And so is one of bytes that are no text."""
    with pytest.raises(CommandError, match="can't be read"):
        rule_file.read(file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CommandError, match="no valid YAML"):
        rule_file.read(file)
