"""The table of JSON Schema keywords against the compiler that engines use: what passes the gateway is held."""

import json
import warnings
from typing import Any, get_args

import pytest
import xgrammar
from xgrammar.testing import _is_grammar_accept_string

from penstock.domain.errors import InvalidField
from penstock.gateway.openai import keywords, schemas
from penstock.worker.engines import dead_ends
from tests.support.samples.schemas import CASES, PATTERNS

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch's, of its own parts
    from vllm.v1.structured_output.backend_xgrammar import (
        STRING_SUPPORTED_FORMATS,
        has_xgrammar_unsupported_json_features,
    )

pytestmark = pytest.mark.integration

IN_STRINGS = [
    ({"type": "string", "pattern": pattern}, good, bad) for pattern, good, bad in PATTERNS if pattern != "a^b"
]


def _passes(schema: Any, values: list[Any]) -> list[Any] | None:  # noqa: ANN401  any JSON
    """Return the values that the grammar lets through; None if there is no grammar."""
    try:
        grammar = xgrammar.Grammar.from_json_schema(json.dumps(schema))
    except RuntimeError:
        return None
    return [one for one in values if _is_grammar_accept_string(grammar, json.dumps(one))]


def _is_refused(schema: Any) -> bool:  # noqa: ANN401  any JSON
    try:
        schemas.check(schema, "schema", "schema")
    except InvalidField as error:
        return str(error.param).startswith("schema")
    return False


@pytest.mark.parametrize(("schema", "good", "bad"), CASES + IN_STRINGS, ids=lambda one: json.dumps(one)[:60])
def test_violating_text_is_refused_by_the_grammar_or_the_schema_by_the_gateway(
    schema: Any,  # noqa: ANN401  any JSON
    good: list[Any],
    bad: list[Any],
) -> None:
    """A compiler that holds less than the table says fails here."""
    through = _passes(schema, bad)
    held = through == [] and not has_xgrammar_unsupported_json_features(schema)
    assert held or _is_refused(schema), f"{through} pass the grammar and the gateway"
    if not _is_refused(schema):
        assert _passes(schema, good), "nothing valid passes"
        dead_ends.check(xgrammar.Grammar.from_json_schema(json.dumps(schema)).serialize_json())


@pytest.mark.parametrize(("schema", "good", "bad"), CASES + IN_STRINGS, ids=lambda one: json.dumps(one)[:60])
def test_what_the_compiler_refuses_is_known_to_be_fatal(
    schema: Any,  # noqa: ANN401  any JSON
    good: list[Any],
    bad: list[Any],
) -> None:
    """Also a tool that does not bind is refused by its path if no grammar can be made of it."""
    del good, bad
    is_fatal = any(fault.is_fatal for fault in keywords.faults(schema))
    assert _passes(schema, []) is not None or is_fatal


@pytest.mark.parametrize("name", sorted(STRING_SUPPORTED_FORMATS | keywords.FORMATS))
def test_each_format_that_passes_is_held(name: str) -> None:
    """The engine's own list, and the compiler: a text without any form does not pass."""
    schema = {"type": "string", "format": name}
    assert name in keywords.FORMATS
    assert _passes(schema, ["! \n %"]) == []
    assert not has_xgrammar_unsupported_json_features(schema)


@pytest.mark.parametrize(("pattern", "good", "bad"), PATTERNS)
def test_each_part_of_a_pattern_that_passes_is_held(pattern: str, good: list[str], bad: list[str]) -> None:
    """As the regular expression of a whole answer."""
    if keywords.pattern_fault(pattern):
        return
    grammar = xgrammar.Grammar.from_regex(pattern)
    dead_ends.check(grammar.serialize_json())
    assert [one for one in bad if _is_grammar_accept_string(grammar, one)] == []
    assert all(_is_grammar_accept_string(grammar, one) for one in good)


def test_the_cases_try_each_keyword_of_the_table() -> None:
    """A keyword that is added to the table without a case fails."""
    tried = {name for schema, _, _ in CASES if isinstance(schema, dict) for name in schema}
    known = {*keywords.FORMS, *keywords.DEFINITIONS, *keywords.INFERRED}
    assert known.union(*keywords.OF_TYPE.values()) <= tried


def test_a_grammar_is_made_by_one_compiler_alone() -> None:
    """What vLLM would hand to another one it compiles with the first one's nevertheless, and leaves words out."""
    from vllm.config.structured_outputs import StructuredOutputsBackend

    from penstock.worker.engines.vllm import GRAMMARS

    assert GRAMMARS in get_args(StructuredOutputsBackend)
