"""Usage as engines tell it, in each API's shape; what an engine says wrong becomes no row that can't be."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.tokens import Usage
from penstock.gateway.answers.account import merged, read


def told(usage: dict[str, object]) -> Usage:
    """Return what is read from a body with this usage."""
    said = read(json.dumps({"usage": usage}).encode()).usage
    assert said is not None
    return said


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_tokens": 37, "completion_tokens": 8, "prompt_tokens_details": {"cached_tokens": 32}}, (37, 8, 32)),
        ({"prompt_tokens": 37, "completion_tokens": None, "prompt_tokens_details": None}, (37, 0, 0)),
        ({"input_tokens": 37, "output_tokens": 8, "input_tokens_details": {"cached_tokens": 32}}, (37, 8, 32)),
        ({"input_tokens": 5, "output_tokens": 8, "cache_read_input_tokens": 32}, (37, 8, 32)),
        ({"input_tokens": 0, "output_tokens": 8, "cache_read_input_tokens": 32}, (32, 8, 32)),
        ({"input_tokens": 5, "cache_read_input_tokens": 16, "cache_creation_input_tokens": 16}, (37, 0, 16)),
        ({"input_tokens": 5, "cache_read_input_tokens": None}, (5, 0, 0)),
    ],
)
def test_the_prompt_is_all_of_it_in_every_api(usage: dict[str, object], counts: tuple[int, int, int]) -> None:
    """Messages tell apart what was cached and what was not; a bill needs both."""
    said = told(usage)
    assert (said.prompt_tokens, said.output_tokens, said.cached_tokens) == counts


def test_a_stream_of_messages_that_learns_of_the_cache_at_its_end() -> None:
    """Its start tells the whole prompt, its end what of it was not cached."""
    start = told({"input_tokens": 37, "output_tokens": 0})
    end = told({"input_tokens": 5, "output_tokens": 8, "cache_read_input_tokens": 32})
    assert merged(start, end) == Usage(prompt_tokens=37, output_tokens=8, cached_tokens=32)


_NUMBER = st.one_of(st.none(), st.integers(-(2**40), 2**40))
_NAMES = ("completion_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_REQUIRED = ("prompt_tokens", "input_tokens", "output_tokens")
_SAID = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(_NAMES, _NUMBER),
        **dict.fromkeys(_REQUIRED, st.integers(-(2**40), 2**40)),
        "prompt_tokens_details": st.one_of(st.none(), st.fixed_dictionaries({"cached_tokens": _NUMBER})),
    },
)


@given(_SAID, _SAID)
def test_no_engine_can_say_what_no_ledger_takes(first: dict[str, object], second: dict[str, object]) -> None:
    """Whatever the numbers, none is negative and no more is cached than was asked."""
    for usage in (told(first), told(second), merged(told(first), told(second))):
        assert 0 <= usage.cached_tokens <= usage.prompt_tokens
        assert usage.output_tokens >= 0
