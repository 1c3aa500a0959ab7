"""What of an answer can be held against another one."""

import json
import time

import pytest

from penstock.gateway.streaming import forms


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ('{"a": 1, "b": [true, null]}', ' {"b":[true,null],"a":1}\n', True),
        ('{"a": {"c": "x", "b": 1}}', '{"a": {"b": 1, "c": "x"}}', True),
        ('{"a": "\\u00e9"}', '{"a": "é"}', True),
        ('{"a": 1}', '{"a": 1.0}', True),
        ('{"a": 1e2}', '{"a": 100}', True),
        ('{"a": 1e999}', '{"a": 1e999}', True),
        ('{"a": 0.1}', '{"a": 0.10000000000000001}', False),
        ('{"a": 1.5}', '{"a": 1}', False),
        ('{"a": 1}', '{"a": true}', False),
        ('{"a": 1}', '{"a": "1"}', False),
        ('{"a": [1, 2]}', '{"a": [2, 1]}', False),
        ('{"a": 1}', '{"a": 1, "b": null}', False),
        ('{"a": 1}', "a: 1", False),
    ],
)
def test_json_is_compared_by_value(one: str, other: str, *, is_same: bool) -> None:
    """The order of names and the spacing are no difference; kinds and the order of a list are."""
    assert (forms.of_json(one) == forms.of_json(other)) is is_same


@pytest.mark.parametrize("said", ["", "{", '{"a": 1', "yes", "NaN"])
def test_what_is_no_json_has_the_form_of_none(said: str) -> None:
    """Told apart from what nobody reads, which is deeper than a person would write."""
    assert forms.of_json(said) == forms.NO_JSON
    assert forms.of_json("[" * 100_000) in (None, forms.NO_JSON)


def test_labels_are_read_in_order() -> None:
    """A list of texts has a list of labels; the scores play no part."""
    one, other = (
        json.dumps({"data": [{"index": 0, "label": "sport", "probs": [score]}, {"index": 1, "label": "world"}]})
        for score in (0.9, 0.6)
    )
    assert forms.of_labels(one.encode()) == forms.of_labels(other.encode()) == b'["sport","world"]'


@pytest.mark.parametrize("body", [b"", b"{}", b'{"data": [{"label": null}]}', b'{"data": 5}', b"x" * 300_000])
def test_an_answer_that_names_no_labels_has_no_form(body: bytes) -> None:
    """Vectors, errors, what was cut, what is too long to be read."""
    assert forms.of_labels(body) is None


def test_numbers_that_are_slow_to_read_hold_nobody_up() -> None:
    """An answer of extreme numbers takes less than ten times what one of plain numbers takes."""

    def seconds(number: str) -> float:
        said = json.dumps([0])[:-1] + f",{number}" * ((forms.MOST_BYTES - 10) // (len(number) + 1)) + "]"
        began = time.process_time()
        assert forms.of_json(said)
        return time.process_time() - began

    assert min(seconds("9e307") for _ in range(3)) < 10 * min(seconds("1.5e1") for _ in range(3))
