"""The API document is true: what it allows and forbids, tried out against the live gateway by schemathesis."""

from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from penstock.domain.serving.request import Api
from penstock.gateway.app.openapi import document
from penstock.gateway.oip.routes import MODEL
from penstock.gateway.openai.parse import OUTPUT_FIELDS
from tests.support.platforms.local import Platform

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

EXAMPLES = 15
MODELS = ("smollm2", "minilm", "0")
FAULTS = {500, 502}
"""503 and 504 are answers: no capacity, no time."""


def no_fault_of_ours(_: object, answer: Any, case: object) -> None:  # noqa: ANN401  schemathesis's own response
    assert answer.status_code not in FAULTS, f"{case} was answered with {answer.status_code}"


CHECKS = (
    no_fault_of_ours,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
MOST_TOKENS = 2
MOST_SEQUENCES = 4

schema = schemathesis.openapi.from_dict(document())


def affordable(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Name an existing model, mostly, and bound the work of a body that would be served."""
    bounded = dict(body)
    if isinstance(body.get("model"), str):
        bounded["model"] = MODELS[len(str(body)) % len(MODELS)]
    most = dict.fromkeys(OUTPUT_FIELDS[Api(path)], MOST_TOKENS) | {"n": MOST_SEQUENCES}
    for name, limit in most.items():
        value = body.get(name)
        if type(value) is int:
            bounded[name] = min(value, limit)
        elif value is None and limit == MOST_TOKENS:
            bounded[name] = limit
    return bounded


def test_the_live_document_is_the_one_tried_here(platform: Platform) -> None:
    """What the gateway serves at /openapi.json is the document that the requests below are made from."""
    with platform.http() as http:
        assert http.get("/openapi.json").json() == document()


@schema.parametrize()
@hypothesis.settings(max_examples=EXAMPLES, derandomize=True, deadline=None, database=None)
def test_the_document_is_true(case: Any, platform: Platform) -> None:  # noqa: ANN401  schemathesis's own case
    """Whatever the document's shapes produce, no answer is a fault of ours or one it does not declare."""
    if case.method.upper() == "POST" and case.path in set(Api) and isinstance(case.body, dict):
        case.body = affordable(case.path, case.body)
    if case.path.startswith(MODEL):
        case.path_parameters["model"] = MODELS[len(str(case.body)) % len(MODELS)]
    key = {"authorization": f"Bearer {platform.demo_key}"}
    case.call_and_validate(base_url=platform.url, headers=key, checks=CHECKS, timeout=60)
