"""The access check of all routes of this room: a key that may ask models; its tenant owns what it makes.

Without runners (``PENSTOCK_JOB_RUNNERS`` is 0) no routes are added, and their paths answer 404.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import FastAPI, Request

from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.openai import head
from penstock.gateway.openai.services import Identity
from penstock.intake.bodies import prove


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
