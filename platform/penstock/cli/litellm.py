"""Turns LiteLLM's configuration into acts of the operators' API, and lists the entries that can't be imported. Pure.

A proxy's models are providers' models: a name becomes an alias if a version here serves it. Keys and teams are in
LiteLLM's database, so its answers to ``/key/list`` and ``/team/list`` are read beside the file. LiteLLM keeps only
hashes of keys, so each key becomes a new one.
"""

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.domain.fleet.table import WEIGHT_TOTAL
from penstock.views.words import MICRO

Json = Mapping[str, Any]
ORG = "litellm"
"""The organisation of imported tenants, if the proxy has a budget of its own."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_DAY = frozenset({"1d", "24h", "daily"})
_MONTH = frozenset({"1mo", "30d", "31d", "monthly"})
_BOUNDS = {"rpm_limit": "requests_per_min", "tpm_limit": "tokens_per_min", "max_parallel_requests": "max_concurrent"}
_PROVIDER = frozenset({"model", "api_key", "api_base", "api_version", "base_url", "custom_llm_provider", "weight"})
"""Parameters of a deployment that describe a provider, or from which shares are computed."""
_WEIGHTS = ("weight", "rpm", "tpm")
_ANY_MODEL = frozenset({"all-team-models", "all-proxy-models"})
_BOOKKEEPING = frozenset(
    "token key_name key_alias spend total_spend max_budget expires models user_id team_id team_alias metadata "
    "tpm_limit rpm_limit max_parallel_requests budget_duration budget_reset_at model_spend blocked created_at "
    "created_by updated_at updated_by settings_updated_at last_active rotation_count last_rotation_at key_rotation_at "
    "members admins members_with_roles organization_id org_id key_type litellm_budget_table team_member_permissions "
    "model_id litellm_model_table object_permission_id".split()
)
"""Fields of keys and teams that are imported, or that are no rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One act: a call of the operators' API, and its description."""

    method: str
    path: str
    body: Json
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """What the platform has: versions by the model's name, aliases with their shares, tenants and organisations."""

    versions: Mapping[str, Sequence[str]]
    aliases: Mapping[str, Sequence[Json]]
    tenants: frozenset[str]
    orgs: frozenset[str]
    now: float


@dataclass(slots=True, kw_only=True)
class Import:
    calls: list[Call] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)

    def leave(self, where: str, why: str) -> None:
        self.left.append((where, why))


def read(config: Json, teams: Sequence[Json], keys: Sequence[Json], here: Here, given: Mapping[str, str]) -> Import:
    """Return what an import does; ``given`` are versions or aliases by LiteLLM's model names."""
    found = Import()
    groups = _aliases(config, here, given, found)
    org = _organisation(config, here, found)
    tenants = _tenants(config, teams, here, org, found)
    for number, key in enumerate(keys):
        _key(key, f"keys[{number}]", tenants, groups, here.now, found)
    _rest(config, found)
    return found


def _aliases(config: Json, here: Here, given: Mapping[str, str], found: Import) -> frozenset[str]:
    """Make an alias of each model name; return the names that have a version."""
    groups: dict[str, list[tuple[str, Json]]] = {}
    for number, one in enumerate(_list(config.get("model_list"))):
        groups.setdefault(str(one.get("model_name", "")), []).append((f"model_list[{number}]", one))
    led: dict[str, list[Json]] = {}
    for name, deployments in groups.items():
        if not _NAME.fullmatch(name):
            found.leave(deployments[0][0], f"{name!r} is no alias: 1 to 63 of a-z, 0-9, '.', '_' and '-'")
        elif shares := _shares(name, deployments, here, given, found):
            led[name] = shares
            _put_alias(name, shares, here, found)
    named = _object(_object(config.get("router_settings")).get("model_group_alias"))
    for name, target in named.items():
        to = str(target.get("model", "") if isinstance(target, dict) else target)
        if to in led and _NAME.fullmatch(name):
            led[name] = led[to]
            _put_alias(name, led[to], here, found)
        else:
            found.leave(f"router_settings.model_group_alias.{name}", f"{to!r} leads nowhere here, or the name is none")
    return frozenset(led)


def _put_alias(name: str, shares: Sequence[Json], here: Here, found: Import) -> None:
    if list(here.aliases.get(name, ())) == list(shares):
        return
    if name in here.aliases:
        found.leave(f"model_name {name}", "there is an alias of this name with other versions: it stays as it is")
        return
    told = ", ".join(f"{one['version']} {one['weight'] * 100 / WEIGHT_TOTAL:g} %" for one in shares)
    found.calls.append(
        Call(method="PUT", path=f"/aliases/{name}", body={"shares": shares}, says=f"alias {name} → {told}")
    )


def _shares(
    name: str, deployments: Sequence[tuple[str, Json]], here: Here, given: Mapping[str, str], found: Import
) -> list[Json]:
    weights: dict[str, float] = {}
    for where, one in deployments:
        params = _object(one.get("litellm_params"))
        others = sorted(set(params) - _PROVIDER - {*_WEIGHTS})
        if others:
            found.leave(f"{where}.litellm_params", f"{', '.join(others)}: a version's own settings, or a request's")
        if bounds := [bound for bound in ("rpm", "tpm") if one.get(bound) or params.get(bound)]:
            found.leave(where, f"{', '.join(bounds)}: limits are keys', tenants' and organisations'; used as weights")
        versions = _served(given.get(name) or str(params.get("model", "")), here) or _served(name, here)
        if not versions:
            model = str(params.get("model", ""))
            found.leave(where, f"no version here serves {model!r}: push it, or name one with --to {name}=VERSION")
        told = [params.get(key) or one.get(key) for key in _WEIGHTS]
        weight = next((_number(value) for value in told if value), 1.0)
        for version, part in versions.items():
            weights[version] = weights.get(version, 0.0) + weight * part
    total = sum(weights.values())
    if not total:
        return []
    parts = {version: round(weight / total * WEIGHT_TOTAL) for version, weight in weights.items()}
    first = next(iter(parts))
    parts[first] += WEIGHT_TOTAL - sum(parts.values())
    return [{"version": version, "weight": weight} for version, weight in parts.items()]


def _served(model: str, here: Here) -> Mapping[str, float]:
    for name in (model, model.rpartition("/")[2].lower()):
        if name in {version for versions in here.versions.values() for version in versions}:
            return {name: 1.0}
        if name in here.aliases:
            return {one["version"]: one["weight"] / WEIGHT_TOTAL for one in here.aliases[name]}
        if len(here.versions.get(name, ())) == 1:
            return {here.versions[name][0]: 1.0}
    return {}


def _organisation(config: Json, here: Here, found: Import) -> str:
    """Return the tenants' organisation: one with the proxy's own budget, if it has one."""
    plan = _plan(_object(config.get("litellm_settings")), "litellm_settings", found)
    if not plan:
        return "default"
    if ORG not in here.orgs:
        body = {"id": ORG, "name": "LiteLLM", "plan": plan}
        found.calls.append(Call(method="POST", path="/orgs", body=body, says=f"organisation {ORG}{_told(plan)}"))
    return ORG


def _tenants(config: Json, teams: Sequence[Json], here: Here, org: str, found: Import) -> dict[str, str]:
    """Make a tenant of each team; return tenants by team id."""
    settings = _object(config.get("litellm_settings"))
    named: list[tuple[str, Json]] = [(f"teams[{number}]", one) for number, one in enumerate(teams)]
    for number, default in enumerate(_list(settings.get("default_team_settings"))):
        where = f"litellm_settings.default_team_settings[{number}]"
        if others := sorted(set(default) - {"team_id"}):
            found.leave(where, f"{', '.join(others)}: callbacks of a proxy")
        named.append((where, {"team_id": default.get("team_id")}))
    tenants: dict[str, str] = {}
    for where, one in named:
        team = str(one.get("team_id") or one.get("team_alias") or "")
        if not team or team in tenants:
            continue
        tenants[team] = _tenant_id(str(one.get("team_alias") or team))
        plan = _plan(one, where, found)
        _strange(one, where, found)
        if one.get("models"):
            found.leave(f"{where}.models", "models are a key's: give its keys these")
        _add_tenant(tenants[team], str(one.get("team_alias") or team), plan, org, here, found)
    return tenants


def _add_tenant(tenant: str, name: str, plan: Json, org: str, here: Here, found: Import) -> None:
    path = "/tenants"
    if any(call.path == path and call.body["id"] == tenant for call in found.calls):
        return
    if tenant in here.tenants:
        found.leave(f"tenant {tenant}", "it is here already, and stays as it is")
        return
    body = {"id": tenant, "name": name[:200], "plan": plan, "org": org}
    found.calls.append(Call(method="POST", path=path, body=body, says=f"tenant {tenant} of {org}{_told(plan)}"))


def _key(key: Json, where: str, tenants: Mapping[str, str], led: frozenset[str], now: float, found: Import) -> None:
    told = str(key.get("key_alias") or key.get("key_name") or where)
    tenant = tenants.get(str(key.get("team_id")))
    if tenant is None:
        found.leave(where, f"{told} is of no team in the list of teams: a key needs a tenant")
        return
    if key.get("blocked"):
        found.leave(where, f"{told} is blocked: no key is made")
        return
    wanted = [str(name) for name in key.get("models") or ()]
    models = [] if not wanted or _ANY_MODEL & {*wanted} else [name for name in wanted if name in led]
    if missing := sorted({*wanted} - {*models} - _ANY_MODEL):
        found.leave(f"{where}.models", f"{', '.join(missing)[:200]}: no such alias")
        if not models and not _ANY_MODEL & {*wanted}:
            return  # a key of no model is none; one without models would be of all
    left_s = _left_s(key.get("expires"), now)
    if left_s is not None and left_s <= 0:
        found.leave(where, f"{told} has expired")
        return
    plan = _plan(key, where, found)
    _strange(key, where, found)
    body = {"tenant": tenant, "models": models, "plan": plan, **({"expires_in_s": left_s} if left_s else {})}
    only = f" for {', '.join(models)}" if models else ""
    found.calls.append(
        Call(
            method="POST", path="/keys", body=body, says=f"a new key in place of {told}, of {tenant}{only}{_told(plan)}"
        )
    )


def _plan(one: Json, where: str, found: Import) -> dict[str, int]:
    plan = {ours: int(_number(one[theirs])) for theirs, ours in _BOUNDS.items() if one.get(theirs)}
    budget, lasts = one.get("max_budget"), str(one.get("budget_duration") or "")
    if not budget:
        return plan
    field_name = "spend_per_day" if lasts in _DAY else "spend_per_month" if lasts in _MONTH else ""
    if field_name:
        plan[field_name] = round(_number(budget) * MICRO)
    else:
        found.leave(f"{where}.max_budget", f"budgets are of a day or a month, and this one of {lasts or 'all time'}")
    return plan


def _strange(one: Json, where: str, found: Import) -> None:
    for name in sorted(name for name, value in one.items() if value and name not in _BOOKKEEPING):
        found.leave(f"{where}.{name}", "there is nothing like it here")


def _rest(config: Json, found: Import) -> None:
    taken = {"model_list", "litellm_settings", "router_settings"}
    for name in sorted(config.keys() - taken):
        found.leave(name, "settings of a proxy")
    ours = {"default_team_settings", "max_budget", "budget_duration", "model_group_alias"}
    for section in ("litellm_settings", "router_settings"):
        for name in sorted(_object(config.get(section)).keys() - ours):
            found.leave(f"{section}.{name}", "settings of a proxy")


def _tenant_id(name: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:63] or "team"


def _left_s(expires: object, now: float) -> float | None:
    if not expires:
        return None
    at = dt.datetime.fromisoformat(str(expires))
    return (at if at.tzinfo else at.replace(tzinfo=dt.UTC)).timestamp() - now


def _told(plan: Json) -> str:
    return f" ({', '.join(f'{name}={value}' for name, value in plan.items())})" if plan else ""


def _number(value: object) -> float:
    try:
        return max(0.0, float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return 0.0


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> Iterator[dict[str, Any]]:
    yield from (one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()
