"""Documents that people write: what two readers would understand differently is refused, by name."""

import json

import pytest
import yaml

from penstock.formats.documents import MOST_DIGITS, DocumentRefused, json_of, yaml_of

JSON_FAULTS = [
    ('{"a": 1, "a": 2}', "the name 'a' stands twice"),
    ('{"x": [{"b": {"c": 1, "d": 2, "c": 3}}]}', "the name 'c' stands twice"),
    ('{"a\\u001b": 1, "a\\u001b": 2}', r"'a\x1b' stands twice"),
    ("1" + "0" * 400, "a number has 401 digits"),
    ("1" * 5000, "a number has 5,000 digits"),
    ("1e400", "the number 1e400 is too large"),
    ('{"a": NaN}', "NaN is no number"),
    ('{"a": -Infinity}', "-Infinity is no number"),
    ("[" * 100_000, "nested too deeply"),
    ('{"a": ', "no valid JSON (line 1, column 7)"),
    (b"\xff\xfe\x00", "no valid JSON"),
    ("", "no valid JSON"),
]
YAML_FAULTS = [
    ("a: 1\na: 2\n", "the name 'a' stands twice"),
    ("x:\n  - b: {c: 1, c: 2}\n", "the name 'c' stands twice"),
    ('a: 1\n"a": 2\n', "the name 'a' stands twice"),
    ("a: &x [1]\nb: *x\n", "refers to a part of itself"),
    ("a: 1" + "0" * 400, "a number has 401 digits"),
    ("a: .inf", "the number .inf is not finite"),
    ("a: .nan", "the number .nan is not finite"),
    ("a: [", "no valid YAML (line 1, column 5)"),
    ("[" * 100_000, "nested too deeply"),
    (b"\xff\xfe\xff", "no valid YAML"),
    ("a: !!python/object:os.system x", "no valid YAML"),
]


@pytest.mark.parametrize(("text", "says"), JSON_FAULTS, ids=range(len(JSON_FAULTS)))
def test_unsound_json_is_refused(text: str | bytes, says: str) -> None:
    """In one short sentence, at any depth."""
    with pytest.raises(DocumentRefused) as refused:
        json_of(text)
    assert says in str(refused.value)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(("text", "says"), YAML_FAULTS, ids=range(len(YAML_FAULTS)))
def test_unsound_yaml_is_refused(text: str | bytes, says: str) -> None:
    """In one short sentence, at any depth."""
    with pytest.raises(DocumentRefused) as refused:
        yaml_of(text)
    assert says in str(refused.value)
    assert len(str(refused.value)) < 200


def test_sound_documents_are_read_as_their_libraries_read_them() -> None:
    """Numbers up to the largest, names that differ in their objects, times and texts."""
    text = '{"a": [1, 2.5, -3, 1e300], "b": {"a": null, "c": true}, "d": "x: y", "e": 1000000000000000019884624838656}'
    assert json_of(text) == json.loads(text)
    assert yaml_of(text) == yaml.safe_load(text)
    assert json_of("9" * MOST_DIGITS) == int("9" * MOST_DIGITS)
    told = "a: 2026-11-01\nb: 0x10\nc: 1_000\nd: {a: 1}\ne: 1.5e3\n"
    assert yaml_of(told) == yaml.safe_load(told)
