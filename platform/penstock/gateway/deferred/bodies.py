"""Bounds of the bodies that are larger than a question, by method and path."""

from collections.abc import Mapping

from penstock.intake.bodies import QUESTION, BodyBound
from penstock.intake.types import Scope

MOST_JOB_BYTES = 16 << 20
"""A prompt that fills a context of a million tokens, in any language; the caller's own models lower it."""

BODIES: Mapping[tuple[str, str], BodyBound] = {
    ("POST", "/v1/jobs"): BodyBound(most_bytes=MOST_JOB_BYTES),
}


def bound_of(scope: Scope) -> BodyBound:
    return BODIES.get((scope.get("method", ""), scope.get("path", "")), QUESTION)
