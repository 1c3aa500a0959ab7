"""The API document is true: what it allows and forbids, tried out against the live gateway by schemathesis."""

from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.platform import Platform

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

EXAMPLES = 40
MODELS = ("smollm2", "minilm")
CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
SMALL = {"max_tokens": 2, "max_completion_tokens": 2, "max_output_tokens": 2, "n": 1, "best_of": 1}


@pytest.fixture(scope="session")
def api(platform: Platform) -> Any:  # noqa: ANN401  schemathesis's schema
    """Return the gateway's own document, with requests that cost little work where they are valid."""
    schema = schemathesis.openapi.from_url(f"{platform.url}/openapi.json")

    @schema.hook
    def map_body(_: object, body: Any) -> Any:  # noqa: ANN401
        return affordable(body)

    return schema


def affordable(body: Any) -> Any:  # noqa: ANN401  any JSON
    """Name a model that exists and bound the output, where the body is of the shape that would be served."""
    if not isinstance(body, dict):
        return body
    bounded = {name: min(value, SMALL[name]) for name, value in body.items() if name in SMALL and type(value) is int}
    known = {"model": MODELS[len(str(body)) % 2]} if isinstance(body.get("model"), str) else {}
    return {**body, **bounded, **known}


schema = schemathesis.pytest.from_fixture("api")


@schema.parametrize()
@hypothesis.settings(max_examples=EXAMPLES, derandomize=True, deadline=None, database=None)
def test_the_document_is_true(case: Any, platform: Platform) -> None:  # noqa: ANN401
    """Whatever the document's shapes produce, no answer is a fault of ours or one it does not declare."""
    case.call_and_validate(headers={"authorization": f"Bearer {platform.demo_key}"}, checks=CHECKS, timeout=60)
