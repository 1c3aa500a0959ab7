"""Versions of some tenants alone: to everybody else each way in answers as if there were none of that name."""

from dataclasses import replace
from typing import Any

import httpx
import pytest
from grpc import StatusCode
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import aio as triton
from tritonclient.utils import InferenceServerException

from penstock.domain.errors import BadRequest, PenstockError, UnknownModel, UnsupportedByModel
from penstock.domain.fleet.table import WEIGHT_TOTAL, Override, Route, RoutingTable, Share, VersionEntry
from penstock.domain.ids import Alias, TenantId, VersionId
from penstock.domain.serving.auto import Auto, Rule
from penstock.domain.serving.request import Api, InferenceRequest, Prepared
from penstock.domain.tenancy.owners import Owners
from penstock.domain.tenancy.tenant import OPERATORS, SHADOWS, Principal, Role
from penstock.gateway.app.routes import visible
from penstock.gateway.calls.call import Call, Progress, Timings
from penstock.gateway.choosing import Choosing
from penstock.gateway.oip import catalogue
from penstock.gateway.openai import bounds
from penstock.gateway.routing.current import CurrentTable, View
from penstock.gateway.routing.resolve import TableResolver, reachable, ruled
from tests.support.gateways import oip, oip_grpc
from tests.support.gateways.oip_grpc import site, text
from tests.support.gateways.oip_rest import AUTH, TEXT, get, post
from tests.support.samples import adapter_versions
from tests.support.samples.calls import VERSION, principal, request

pytestmark = pytest.mark.filterwarnings("ignore:Protobuf gencode:UserWarning")

ACME, BETA, NOBODY = TenantId("acme"), TenantId("beta"), TenantId("nobody")
BASE = VERSION
LORA = replace(adapter_versions.entry("lora@eeeeeeeeeeee"), tenants=(ACME,))
STRANGER, OWNER = principal(tenant=BETA), principal(tenant=ACME)
ALL = (principal(tenant=OPERATORS, role=Role.ADMIN), principal(tenant=SHADOWS))


def led(alias: str, *shares: tuple[VersionEntry, int], **more: Any) -> Route:  # noqa: ANN401  any field
    """Return an alias of these versions by weight."""
    return Route(alias=Alias(alias), shares=tuple(Share(version=one.id, weight=many) for one, many in shares), **more)


TABLE = RoutingTable(
    number=1,
    made_at=0.0,
    versions=(BASE, LORA),
    routes=(led("toy", (BASE, WEIGHT_TOTAL)), led("lora", (LORA, WEIGHT_TOTAL))),
    autos=(
        Auto(alias=Alias("auto"), rules=(Rule(name="own", to=Alias("lora")), Rule(name="rest", to=Alias("toy")))),
        Auto(alias=Alias("hers"), rules=(Rule(name="own", to=Alias(LORA.id)),)),
    ),
)


def current_of(table: RoutingTable) -> CurrentTable:
    """Return this table in force."""
    current = CurrentTable()
    current.swap(table, 0.0)
    return current


def said(resolver: TableResolver, who: Principal, name: str, api: Api = Api.CHAT) -> str:
    """Return the version that a name leads to, or the refusal with the name taken out of it."""
    try:
        return resolver.resolve(request(model=name, api=api), who).id
    except PenstockError as error:
        return f"{type(error).__name__} {error.param} {error.message.replace(name, 'IT')}"


@pytest.mark.parametrize("api", [Api.CHAT, Api.COMPLETIONS, Api.EMBEDDINGS, Api.MESSAGES, Api.RESPONSES])
@pytest.mark.parametrize("name", ["lora", LORA.id, f"lora@{LORA.digest}", f"lora@{LORA.digest[:20]}"])
def test_another_tenants_name_is_none(name: str, api: Api) -> None:
    """By alias, by version and by its whole digest, on every API: the words are those of a name that is nowhere."""
    resolver = TableResolver(current_of(TABLE))
    nowhere = "none" if "@" not in name else f"none@{'f' * len(name.partition('@')[2])}"
    assert said(resolver, STRANGER, name, api) == said(resolver, STRANGER, nowhere, api)
    assert said(resolver, STRANGER, name, api).startswith("UnknownModel model the model 'IT' does not exist")


@pytest.mark.parametrize("who", [OWNER, *ALL])
def test_its_tenant_operators_and_the_platform_have_it(who: Principal) -> None:
    """Who it is for is answered; a tenant's own admin key is no operator's."""
    resolver = TableResolver(current_of(TABLE))
    assert [said(resolver, who, name) for name in ("lora", LORA.id)] == [LORA.id, LORA.id]
    own_admin = principal(tenant=BETA, role=Role.ADMIN)
    auditor = principal(tenant=OPERATORS, role=Role.AUDITOR)
    assert not any(one.sees(LORA.tenants) for one in (own_admin, auditor))


def test_a_base_that_is_for_everybody_is_there_beside_it() -> None:
    """Its other versions are answered, and a version that is none is told of those that the caller may name."""
    resolver = TableResolver(current_of(TABLE))
    assert said(resolver, STRANGER, "toy") == BASE.id
    twin = replace(LORA, id=VersionId("lora@dddddddddddd"), digest="d" * 64, tenants=None)
    resolver = TableResolver(current_of(replace(TABLE, versions=(BASE, LORA, twin))))
    assert said(resolver, STRANGER, f"lora@{'f' * 12}").endswith(f"versions of lora: {twin.id}")
    assert said(resolver, OWNER, f"lora@{'f' * 12}").endswith(f"versions of lora: {twin.id}, {LORA.id}")


def test_an_alias_of_several_tenants_leads_each_to_its_own() -> None:
    """Whose version has no weight has the alias by an override alone, and who has neither has no alias."""
    hers = replace(LORA, id=VersionId("lora@dddddddddddd"), digest="d" * 64, tenants=(BETA,))
    own = (Override(tenant=NOBODY, version=LORA.id), Override(tenant=BETA, version=LORA.id))
    both = replace(TABLE, versions=(BASE, LORA, hers), routes=())
    for split, overrides in (((5000, 5000), ()), ((9000, 1000), own)):
        route = led("lora", (LORA, split[0]), (hers, split[1]), overrides=overrides)
        resolver = TableResolver(current_of(replace(both, routes=(TABLE.routes[0], route))))
        assert said(resolver, OWNER, "lora") == LORA.id
        assert said(resolver, STRANGER, "lora") == hers.id
        assert said(resolver, principal(tenant=NOBODY), "lora").startswith("UnknownModel")
    unborn = led("lora", (LORA, WEIGHT_TOTAL), (hers, 0))
    resolver = TableResolver(current_of(replace(both, routes=(TABLE.routes[0], unborn))))
    assert said(resolver, STRANGER, "lora").startswith("UnknownModel")
    given_it = replace(unborn, overrides=(Override(tenant=BETA, version=hers.id),))
    resolver = TableResolver(current_of(replace(both, routes=(TABLE.routes[0], given_it))))
    assert said(resolver, STRANGER, "lora") == hers.id


def test_nobody_falls_back_to_what_is_others() -> None:
    """Where a version is dead and its fallback is another tenant's, the version itself says why not."""
    route = led("toy", (BASE, WEIGHT_TOTAL), (LORA, 0), fallback=LORA.id)
    current = current_of(replace(TABLE, routes=(route,), autos=()))
    resolver = TableResolver(current, is_shut=lambda version: version == BASE.id)
    assert said(resolver, STRANGER, "toy") == BASE.id


def test_a_key_that_may_use_the_name_needs_its_tenant_too() -> None:
    """A scope opens nothing that is others', and limits are asked of nothing that is."""
    view, resolver = current_of(TABLE).view, TableResolver(current_of(TABLE))
    scoped = principal(tenant=BETA, models=(Alias("lora"), Alias(LORA.id)))
    assert said(resolver, scoped, "lora").startswith("UnknownModel")
    assert reachable(view, STRANGER) == {BASE.id}
    assert reachable(view, STRANGER, "lora") == reachable(view, STRANGER, LORA.id) == frozenset()
    assert reachable(view, STRANGER, "auto") == {BASE.id}
    assert reachable(view, OWNER) == {BASE.id, LORA.id}
    after = led("toy", (LORA, WEIGHT_TOTAL), (BASE, 0))
    cut_over = replace(TABLE, routes=(after,), autos=())
    assert reachable(current_of(cut_over).view, STRANGER, "toy") == frozenset()


class Counts:
    """The preprocessor's place."""

    async def prepare(self, asked: InferenceRequest, version: VersionEntry, who: Principal) -> Prepared:
        """Every prompt has three tokens."""
        del asked, version, who
        return Prepared(prompt_tokens=3)


async def chosen(who: Principal, **changes: Any) -> Call:  # noqa: ANN401  any field
    """Return a call after its version was chosen."""
    resolver = TableResolver(current_of(TABLE))
    choosing = Choosing(autos=resolver.auto, resolver=resolver, preprocessor=Counts(), count=lambda *_: None)
    call = Call(request=request(**{"model": "auto", **changes}), principal=who, timings=Timings(lambda: 0.0, 0.0))
    return await choosing.choose(Progress(call))


async def test_rules_that_lead_to_what_is_others_are_none() -> None:
    """Nor does a kept rule's name tell that it is one; an auto alias of such rules alone is no name."""
    own, others = await chosen(OWNER), await chosen(STRANGER, kept_rule="own")
    assert own.ruled is not None
    assert (own.version, own.ruled.rule) == (LORA, "own")
    assert others.ruled is not None
    assert (others.version, others.ruled.rule, others.ruled.passed) == (BASE, "rest", ())
    with pytest.raises(UnknownModel, match="the model 'hers' does not exist"):
        await chosen(STRANGER, model="hers")


def test_lists_hold_nothing_that_is_others() -> None:
    """Neither /v1/models nor the repository's index nor metadata, and no rule's name."""
    names = {"toy", BASE.id, "auto"}
    assert visible(TABLE, STRANGER).keys() == names
    assert visible(TABLE, STRANGER)["auto"]["rules"] == ["rest"]
    assert visible(TABLE, OWNER).keys() == names | {"lora", LORA.id, "hers"}
    assert {(one.name, one.version) for one in catalogue.index(TABLE, STRANGER)} == {("toy", BASE.digest[:12])}
    assert {one.name for one in catalogue.index(TABLE, OWNER)} == {"toy", "lora"}
    for name in ("lora", LORA.id, f"lora@{LORA.digest}", "hers"):
        with pytest.raises(UnknownModel):
            catalogue.metadata(TABLE, STRANGER, name)
    with pytest.raises(UnsupportedByModel):
        catalogue.find(TABLE, OWNER, "hers")


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> str:
    """Make the Open Inference Protocol's writer another tenant's; return its digest in short."""
    others = replace(oip.WRITER, tenants=(NOBODY,))
    table = replace(oip.TABLE, versions=tuple(others if one is oip.WRITER else one for one in oip.TABLE.versions))
    monkeypatch.setattr(oip, "TABLE", table)
    monkeypatch.setattr(oip_grpc, "TABLE", table)
    return others.id.partition("@")[2]


def told(response: httpx.Response, *names: str) -> tuple[int, str]:
    """Return a refusal without its names and its id."""
    words = response.text.replace(response.headers["x-request-id"], "ID")
    for name in names:
        words = words.replace(name, "IT")
    return response.status_code, words


async def test_over_rest_it_is_no_model(hidden: str) -> None:
    """Inference, metadata, readiness and OpenAI's own question answer with the status and the words of any name."""
    for path in ("/v2/models/{}", "/v2/models/{}/ready", "/v2/models/{}/versions/" + hidden, "/v1/models/{}"):
        theirs, none = await get(path.format("writer")), await get(path.format("zriter"))
        assert theirs.status_code == 404
        assert told(theirs, "writer") == told(none, "zriter")
    theirs, toy = await post({"inputs": [TEXT]})
    none, _ = await post({"inputs": [TEXT]}, model="zriter")
    assert told(theirs, "writer") == told(none, "zriter")
    assert (theirs.status_code, toy.seen.calls) == (404, [])
    index = await get("/v1/models")
    assert "writer" not in index.text


async def test_over_grpc_it_is_no_model(hidden: str) -> None:
    """NOT_FOUND in the words of any name, never ready, and not in the repository's index."""
    async with site() as at, triton.InferenceServerClient(at.address) as client:
        assert not await client.is_model_ready("writer", headers=AUTH)
        assert not await client.is_model_ready("writer", hidden, headers=AUTH)
        index = await client.get_model_repository_index(headers=AUTH)
        assert {one.name for one in index.models} == {"embedder", "labels"}
        for ask in (client.get_model_metadata, client.get_model_config):
            found = []
            for name in ("writer", "zriter"):
                with pytest.raises(InferenceServerException) as caught:
                    await ask(name, headers=AUTH)
                found.append((caught.value.status(), str(caught.value).replace(name, "IT")))
            assert found[0] == found[1]
        with pytest.raises(InferenceServerException, match="does not exist") as caught:
            await client.infer("writer", [text("a")], headers=AUTH)
        assert caught.value.status() == str(StatusCode.NOT_FOUND)
        assert at.toy.seen.calls == []


tenants = st.one_of(st.none(), st.lists(st.sampled_from([ACME, BETA, NOBODY]), max_size=2, unique=True).map(tuple))


@st.composite
def tables(draw: st.DrawFn) -> RoutingTable:
    """Return a table whose versions are for anybody, with aliases and rules that lead anywhere."""
    owners: list[Owners] = draw(st.lists(tenants, min_size=2, max_size=4))
    versions = tuple(
        replace(
            VERSION,
            id=VersionId(f"m@{at:012x}"),
            digest=f"{at:012x}" + "0" * 52,
            max_model_len=1024 * (at + 1),
            tenants=whose,
        )
        for at, whose in enumerate(owners)
    )
    routes = []
    for alias in draw(st.lists(st.sampled_from(["a", "b", "c"]), unique=True, max_size=3)):
        of = draw(st.lists(st.sampled_from(versions), min_size=1, max_size=3, unique_by=lambda one: one.id))
        part = WEIGHT_TOTAL // len(of)
        shares = [(one, part) for one in of[1:]] + [(of[0], WEIGHT_TOTAL - part * (len(of) - 1))]
        first = draw(st.sampled_from(of)).id
        own = tuple(Override(tenant=one, version=first) for one in draw(st.sampled_from([(), (BETA,)])))
        routes.append(led(alias, *shares, overrides=own, fallback=draw(st.sampled_from([VersionId(""), of[0].id]))))
    targets = [*(route.alias for route in routes), *(one.id for one in versions)]
    rules = draw(st.lists(st.sampled_from(targets), min_size=1, max_size=3))
    made = tuple(Rule(name=f"r{at}", to=Alias(to)) for at, to in enumerate(rules))
    autos = (Auto(alias=Alias("auto"), rules=made),)
    return RoutingTable(number=1, made_at=0.0, versions=versions, routes=tuple(routes), autos=autos)


def without(view: View, who: Principal) -> View:
    """Return what the table would be had nobody ever pushed what is others': by removal, and by no other rule."""
    table = view.table
    versions = tuple(
        replace(one, tenants=None) for one in table.versions if one.tenants is None or who.sees(one.tenants)
    )
    known = {one.id for one in versions}
    routes = []
    for route in table.routes:
        shares = tuple(share for share in route.shares if share.version in known)
        if shares:
            own = tuple(one for one in route.overrides if one.version in known)
            fallback = route.fallback if route.fallback in known else VersionId("")
            routes.append(replace(route, shares=shares, overrides=own, fallback=fallback))
    targets = {str(route.alias) for route in routes} | {str(one) for one in known}
    ours = [replace(one, rules=tuple(rule for rule in one.rules if rule.to in targets)) for one in table.autos]
    autos = tuple(one for one in ours if one.rules)
    left = replace(table, versions=versions, routes=tuple(routes), autos=autos)
    return replace(
        view,
        table=left,
        routes={route.alias: route for route in routes},
        overrides={route.alias: {one.tenant: one.version for one in route.overrides} for route in routes},
        versions={one.id: one for one in versions},
        autos={one.alias: one for one in autos},
        has_owners=False,
        owned=frozenset(),
    )


@given(
    table=tables(),
    whose=st.sampled_from([ACME, BETA, NOBODY]),
    user=st.sampled_from(["u", "v", "w"]),
    scope=st.sampled_from([(), (Alias("a"), Alias("b"))]),
)
def test_no_way_of_naming_leaks_anything(
    table: RoutingTable, whose: TenantId, user: str, scope: tuple[Alias, ...]
) -> None:
    """Whatever is asked, it is answered as by a table in which what is others' was never there."""
    who, current, other = principal(tenant=whose, models=scope), current_of(table), CurrentTable()
    other.view = without(current.view, who)

    def shut(version: VersionId) -> bool:
        return version.endswith("1")

    mine, twin = TableResolver(current, shut), TableResolver(other, shut)
    names = ["a", "b", "c", "auto", "x", "m@ffffffffffff", *(one.id for one in table.versions)]
    names += [f"m@{one.digest}" for one in table.versions]
    for name in names:
        asked = request(model=name, body={"user": user})
        assert outcome(mine, asked, who) == outcome(twin, asked, who)
        assert reachable(current.view, who, name) == reachable(other.view, who, name)
        assert ruled(current.view, name, who) == ruled(other.view, name, who)
        for version in ("", *(one.digest[:12] for one in table.versions)):
            assert found(table, who, name, version) == found(other.view.table, who, name, version)
    assert bounds.of_table(table, who) == bounds.of_table(other.view.table, who)
    assert visible(table, who) == visible(other.view.table, who)
    assert catalogue.index(table, who) == catalogue.index(other.view.table, who)


def outcome(resolver: TableResolver, asked: InferenceRequest, who: Principal) -> tuple[str, list[VersionId]]:
    """Return who answers, or the refusal, and whose fallback it is."""
    fell = list[VersionId]()
    try:
        return resolver.resolve(asked, who, fell.append).id, fell
    except BadRequest as error:
        return repr((type(error), error.message, error.param)), fell


def found(table: RoutingTable, who: Principal, name: str, version: str) -> str:
    """Return what the Open Inference Protocol finds behind a name."""
    try:
        meant = catalogue.find(table, who, name, version)
    except BadRequest as error:
        return repr((type(error), error.message, error.param))
    return f"{meant.name} {meant.version.id}"
