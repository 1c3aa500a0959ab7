"""Operators: organisations, whose bounds hold for all of their tenants together."""

import re
from dataclasses import replace

from fastapi import APIRouter, Request, Response

from penstock.control.api import plans
from penstock.control.api.bodies import NewOrg, PlanChange
from penstock.control.api.deps import Control
from penstock.control.api.wire import answer, read
from penstock.domain.errors import InvalidField
from penstock.domain.ids import OrgId
from penstock.domain.tenancy.tenant import Org, ScopeId, ScopeKind

_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def checked_id(text: str, whose: str) -> str:
    """Return an id that may stand in meters' names and addresses, or raise ``InvalidField``."""
    if not _ID.fullmatch(text):
        raise InvalidField(f"{whose} id has 1 to 63 of a-z, 0-9, '_' and '-'", param="id")
    return text


class Orgs:
    """Who tenants belong to."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._store = control.tenancy

    def router(self) -> APIRouter:
        """Return its routes."""
        router = APIRouter(tags=["orgs"])
        router.add_api_route("/orgs", self.create, methods=["POST"], status_code=201)
        router.add_api_route("/orgs", self.orgs, methods=["GET"])
        router.add_api_route("/orgs/{org}/plan", self.change, methods=["PATCH"])
        return router

    async def create(self, request: Request) -> Response:
        """Make an organisation."""
        act = await self._control.act(request, "org.create")
        body = await read(request, NewOrg)
        org_id = OrgId(checked_id(body.id, "an organisation's"))
        org = Org(id=org_id, name=body.name or body.id, plan=plans.checked(body.plan, ScopeKind.ORG))
        await self._store.add_org(org, replace(act, target=org.id))
        return answer(org, 201)

    async def orgs(self, request: Request) -> Response:
        """List organisations."""
        await self._control.operator(request)
        return answer({"orgs": await self._store.orgs()})

    async def change(self, request: Request, org: OrgId) -> Response:
        """Change an organisation's bounds; what is not named stays."""
        act = await self._control.act(request, "org.plan")
        change = await read(request, PlanChange)
        return answer(await plans.change(self._store, ScopeId(kind=ScopeKind.ORG, id=org), change, act))
