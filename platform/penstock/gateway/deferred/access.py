"""The access check of all routes of this room: a key that may ask models; its tenant owns what it makes.

Without runners (``PENSTOCK_JOB_RUNNERS`` is 0) no routes are added, and their paths answer 404.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fastapi import FastAPI, Request

from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.openai import head
from penstock.gateway.openai.services import Identity
from penstock.intake.bodies import prove

PAGES = frozenset({"after", "limit", "order"})

INCLUDED = frozenset({"include", "include[]"})

QUERIES: Sequence[tuple[re.Pattern[str], frozenset[str]]] = (
    (re.compile(r"/v1/files"), PAGES | {"purpose"}),
    (re.compile(r"/v1/batches"), PAGES),
    (re.compile(r"/v1/jobs"), PAGES | {"state", "model"}),
    (re.compile(r"/v1/webhooks/[^/]+/deliveries"), PAGES | {"state"}),
    (re.compile(r"/v1/responses/[^/]+"), INCLUDED | {"stream", "starting_after", "include_obfuscation"}),
    (re.compile(r"/v1/responses/[^/]+/input_items"), PAGES | INCLUDED),
)
_NONE = frozenset[str]()


def known_at(path: str) -> frozenset[str]:
    return next((names for pattern, names in QUERIES if pattern.fullmatch(path)), _NONE)


@dataclass(frozen=True, slots=True)
class Access:
    identity: Identity

    def caller(self, request: Request) -> Principal:
        head.check_single(request.headers.raw)
        who = self.identity.authenticate(head.credential(dict(request.headers.raw)))
        prove(request.scope)
        return who


Routes = Callable[[FastAPI, Access], None]
"""Adds the routes of one kind of object to the application."""
