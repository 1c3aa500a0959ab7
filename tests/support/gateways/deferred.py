"""A gateway with the routes of deferred work over real stores: Postgres, sealed files; no runner, no engine."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx

from penstock.connectors.payloads.folder import FolderObjects
from penstock.connectors.payloads.store import SealedPayloads
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.jobs import PostgresJobs
from penstock.domain.clock import Clock
from penstock.domain.errors import InvalidField
from penstock.domain.fleet.table import WEIGHT_TOTAL, Route, RoutingTable, Share, VersionEntry
from penstock.domain.ids import Alias, TenantId, VersionId
from penstock.domain.jobs.ids import EndpointId
from penstock.domain.serving.request import InferenceRequest, Prepared
from penstock.domain.tenancy.keys import mint
from penstock.domain.tenancy.tenant import KeyRing, Plan, Principal, Role, Tenant
from penstock.gateway.app.asgi import Edge
from penstock.gateway.app.routes import Refusals, application
from penstock.gateway.choosing import Choosing
from penstock.gateway.deferred.jobs import add_jobs
from penstock.gateway.deferred.submits import Submits
from penstock.gateway.identity.keyring import Keyring
from penstock.gateway.openai.bounds import BodyBounds
from penstock.gateway.openai.reading import BodyReader
from penstock.gateway.openai.services import Facts
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.resolve import TableResolver
from penstock.intake.limits import Limits
from penstock.intake.turns import StartTurns
from penstock.jobs.accepting import Accepting
from penstock.jobs.submitting import Submitting
from tests.support.gateways.toy import PEPPER, Toy, hello
from tests.support.samples.calls import VERSION
from tests.support.sealing import FixedKeys

SEALING = [b"k" * 32]
ENDPOINT = EndpointId("we_0123456789ab")
PROMPT_TOKENS = 17
LATER = replace(VERSION, id=VersionId("toy@ffffffffffff"), digest="f" * 64)
"""The version that a rollout leads to."""
ACME, OTHER = TenantId("acme"), TenantId("other")


class Counted:
    """The preprocessor's place: every prompt has seventeen tokens."""

    async def prepare(self, request: InferenceRequest, version: VersionEntry, principal: Principal) -> Prepared:
        del request, version, principal
        return Prepared(prompt_tokens=PROMPT_TOKENS)


class OneEndpoint:
    """The endpoints' place: each tenant has one."""

    async def check(self, who: Principal, endpoint: EndpointId) -> None:
        del who
        if endpoint != ENDPOINT:
            raise InvalidField("this tenant has no such endpoint", param="webhook")


def route(alias: str, version: VersionId) -> Route:
    return Route(alias=Alias(alias), shares=(Share(version=version, weight=WEIGHT_TOTAL),))


@dataclass
class DeferredGateway:
    """``secrets`` has the keys of two tenants, of acme's auditor, and of acme for another model alone."""

    database: Database
    folder: Path
    clock: Clock
    plan: Plan = field(default_factory=Plan)
    submits: int = 8

    def __post_init__(self) -> None:
        """Put it together."""
        self.table, self.toy = CurrentTable(), Toy(hello)
        self.lead("toy", VERSION.id)
        self.store = PostgresJobs(self.database)
        self.payloads = SealedPayloads(FolderObjects(self.folder), FixedKeys(*SEALING))
        self.secrets, keys = self._keys()
        self.keys = keys
        counter = itertools.count(1)
        resolver = TableResolver(self.table)
        self.service = Submitting(
            store=self.store,
            payloads=self.payloads,
            accepting=Accepting(
                reader=BodyReader(),
                chooser=Choosing(
                    autos=resolver.auto, resolver=resolver, preprocessor=Counted(), count=lambda alias, rule: None
                ),
                bounds=lambda _: BodyBounds(),
                clock=self.clock,
                region="here",
            ),
            webhooks=OneEndpoint(),
            workers=self.table,
            clock=self.clock,
            ids=lambda: f"{next(counter):016x}",
        )
        turns = StartTurns(self.clock.monotonic)
        submits = Submits(turns, self.clock, self.submits)
        facts = Facts(table=lambda: self.table.view.table, missing=lambda: "")
        ids = (f"{number:010d}" for number in itertools.count())
        rest = application(
            Refusals(keys, self.toy),
            facts,
            ids=lambda: next(ids),
            deferred=(lambda api, access: add_jobs(api, access, self.service, submits),),
        )
        edge = Edge(
            corridor=self.toy,
            counting=self.toy,
            identity=keys,
            clock=self.clock,
            limits=Limits(),
            ids=lambda: next(ids),
            observer=self.toy,
            rest=rest,
        )
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app=edge), base_url="http://g")

    def lead(self, alias: str, version: VersionId) -> None:
        """Let the alias lead to this version from now on."""
        number, versions = self.table.number + 1, (VERSION, LATER)
        table = RoutingTable(number=number, made_at=0.0, versions=versions, routes=(route(alias, version),))
        self.table.swap(table, 0.0)

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        key: str = "acme",
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        own = {"authorization": f"Bearer {self.secrets[key]}", **(headers or {})}
        return await self.http.request(method, path, json=body, headers=own)

    def _keys(self) -> tuple[dict[str, str], Keyring]:
        made = {
            "acme": mint(ACME, pepper=PEPPER, now=0.0),
            "other": mint(OTHER, pepper=PEPPER, now=0.0),
            "auditor": mint(ACME, pepper=PEPPER, now=0.0, role=Role.AUDITOR),
            "scoped": mint(ACME, pepper=PEPPER, now=0.0, models=(Alias("elsewhere"),)),
        }
        keys = Keyring(peppers=(PEPPER,), salt_key=b"s" * 32, now=self.clock.now)
        tenants = tuple(Tenant(id=one, name=one, plan=self.plan) for one in (ACME, OTHER))
        keys.replace(KeyRing(tenants=tenants, keys=tuple(key for _, key in made.values())))
        return {name: secret for name, (secret, _) in made.items()}, keys
