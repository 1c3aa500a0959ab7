"""Turns texts of the command line into values, or raises ``CommandError`` with an example of a valid text."""

import datetime as dt
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import fields
from decimal import Decimal, DecimalException
from typing import Any, Protocol

import msgspec

from penstock.domain.command_error import CommandError
from penstock.domain.fleet.table import WEIGHT_TOTAL
from penstock.domain.models.model import EngineSettings, ModelVersion
from penstock.domain.money import MicroUsd, Price
from penstock.domain.tenancy.tenant import CAPS
from penstock.views.tenants import DOLLARS, FIELDS, TIERS, YES_OR_NO
from penstock.views.words import MICRO

ENGINE_NUMBERS = tuple(
    one.name for one in fields(EngineSettings) if one.type is int and one.name != "tensor_parallel_size"
)
"""Engine settings that are whole numbers; the number of GPUs has a separate option."""
ENGINE_WORDS = {
    "dtype": ("bfloat16", "float16", "float32"),
    "kv_cache_dtype": ("auto", "bfloat16", "fp8"),
    "tool_parser": ("hermes",),
}
"""Engine settings that are names, and those names; of vLLM's tool parsers the one that is tested."""
MOST_MICRO = 2**53
"""More micro-dollars than meters count exactly."""
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)(s|m|h)?")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}
_PLAN_WORDS = ("priority", "over_quota", "auto_tier", "batch_yield")
_TEXTS = ("degrade_model", "batch_windows", "batch_hours", "batch_pools", "safety")
"""Fields of a plan that ``0`` empties."""
_KEPT = ("keep_s", "keep_files_s", "keep_answers_s", "keep_matches_s")
_PARTS = ("deadline_s", "reserved", "kv_part", "job_deadline_s", *_KEPT)
"""Fields of a plan that need not be whole."""
CAPS_HELP = f"FIELD=VALUE, 0 for no bound; fields: {', '.join(CAPS)} (money in dollars)."
PLAN_HELP = (
    f"FIELD=VALUE, 0 for no bound; fields: {', '.join(FIELDS)} (money in dollars, paid=yes or no, "
    "over_quota=refuse or yield, copied, zero_retention and training_use=yes or no, "
    "reserved and kv_part as parts of each engine, "
    "service_tiers=NAME:CLASS:PRICE_FACTOR[:SLO],… such as flex:batch:0.5,priority:interactive:2, "
    "batch_yield=share or strict, batch_windows=30m,2h,…, 'batch_hours=mon-fri 20:00-06:00 Europe/Berlin', "
    "batch_pools=spot or NAME,…, safety=PACK,…)."
)


class OperatorsApi(Protocol):
    def get(self, path: str) -> Any:  # noqa: ANN401  JSON
        ...


def seconds(moment: str) -> float:
    """Return an ISO day or moment as Unix seconds, UTC without another zone; 0 for nothing."""
    if not moment:
        return 0.0
    try:
        at = dt.datetime.fromisoformat(moment)
    except ValueError as error:
        raise CommandError(f"{moment!r} is no day.", do="Give for example 2026-11-01, or 2026-11-01T12:00.") from error
    return (at if at.tzinfo else at.replace(tzinfo=dt.UTC)).timestamp()


def length(text: str) -> float:
    if not text:
        return 0.0
    found = _LENGTH.fullmatch(text.strip())
    number = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if not 0 < number < math.inf:
        raise CommandError(f"{text[:40]!r} is no length of time.", do="Write for example 90s, 5m or 1h.")
    return number


def micro_usd(dollars: str) -> int:
    try:
        amount = Decimal(dollars) * MICRO
        if 0 <= amount <= MOST_MICRO and amount == amount.to_integral_value():
            return int(amount)
    except DecimalException:
        pass
    raise CommandError(f"{dollars!r} is no amount of dollars.", do="Give for example 2.50; the smallest is 0.000001.")


def price(text: str) -> Price:
    """Return a price of ``PROMPT/CACHED/OUTPUT`` dollars per million tokens."""
    try:
        prompt, cached, output = (round(float(part) * 1e6) for part in text.split("/"))
    except ValueError as error:
        raise CommandError(
            f"{text!r} is no price.", do="Write dollars per million tokens as PROMPT/CACHED/OUTPUT: 0.10/0.05/0.40."
        ) from error
    return Price(prompt_per_mtok=MicroUsd(prompt), cached_per_mtok=MicroUsd(cached), output_per_mtok=MicroUsd(output))


def engine_settings(texts: Sequence[str]) -> dict[str, int | str]:
    """Return engine settings by name from ``NAME=VALUE``."""
    found: dict[str, int | str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if value in ENGINE_WORDS.get(name, ()):
            found[name] = value
        elif name in ENGINE_NUMBERS and value.isdecimal():
            found[name] = int(value)
        else:
            words = " and ".join(f"{one} ({', '.join(known)})" for one, known in ENGINE_WORDS.items())
            raise CommandError(
                f"{text!r} is no setting of an engine.",
                do="Write NAME=NUMBER, for example max_num_seqs=64; "
                f"there are {', '.join(ENGINE_NUMBERS)}, and the names {words}.",
            )
    return found


def plan(pairs: Iterable[str]) -> dict[str, object]:
    """Return the operators' API's fields; ``CommandError`` names the pair at fault."""
    return dict(_bound(pair) for pair in pairs)


def _bound(pair: str) -> tuple[str, object]:
    name, _, value = pair.partition("=")
    if name not in FIELDS or not value:
        raise CommandError(f"{pair!r} is no bound.", do=f"Give FIELD=VALUE with one of: {', '.join(FIELDS)}.")
    if name in DOLLARS:
        return name, micro_usd(value)
    if name in _PLAN_WORDS:
        return name, value
    if name in YES_OR_NO and value in ("yes", "no"):
        return name, value == "yes"
    if name == TIERS:
        return name, [] if value == "0" else [_tier(text) for text in value.split(",")]
    if name in _TEXTS:
        return name, "" if value == "0" else value
    return name, _number(name, value)


def _number(name: str, value: str) -> float:
    try:
        number = float(value) if name in _PARTS else int(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        example = "0.25" if name in _PARTS else "60"
        raise CommandError(f"{value!r} is no number for {name}.", do=f"Give for example {name}={example}.")
    return number


def _tier(text: str) -> dict[str, object]:
    name, _, rest = text.partition(":")
    priority, _, rest = rest.partition(":")
    factor, _, slo = rest.partition(":")
    try:
        return {"name": name, "priority": priority, "price_factor": float(factor), **({"slo": slo} if slo else {})}
    except ValueError as error:
        raise CommandError(
            f"{text!r} is no service tier.", do="Give NAME:CLASS:PRICE_FACTOR, for example flex:batch:0.5."
        ) from error


def share(text: str) -> dict[str, object]:
    """Return one version's share of an alias from ``VERSION`` or ``VERSION=PERCENT``."""
    version, _, percent = text.partition("=")
    try:
        weight = round(float(percent or 100) / 100 * WEIGHT_TOTAL)
    except ValueError as error:
        raise CommandError(
            f"{percent!r} is no percentage.", do="Write VERSION=PERCENT, for example a@0123456789ab=90."
        ) from error
    return {"version": version, "weight": weight}


def override(text: str) -> dict[str, str]:
    """Return a tenant's own version of an alias from ``TENANT=VERSION``."""
    tenant, _, version = text.partition("=")
    if not tenant or not version:
        raise CommandError(f"{text!r} is no override.", do="Write TENANT=VERSION, for example acme=a@0123456789ab.")
    return {"tenant": tenant, "version": version}


def tenants(text: str, api: OperatorsApi) -> list[str] | None:
    """Return the tenants of a list with commas, None for an empty one; each must exist."""
    if not text:
        return None
    named = [name.strip() for name in text.split(",")]
    known = {tenant["id"] for tenant in api.get("/tenants")["tenants"]}
    for name in named:
        if name not in known:
            raise CommandError(f"There is no tenant {name[:80]!r}.", do="See penstock tenants list, or add it first.")
    return named


def base(name: str, api: OperatorsApi) -> ModelVersion:
    """Return the version that an adapter is made for, by name or by an alias of that version alone."""
    if "@" not in name:
        routes = {route["alias"]: route["shares"] for route in api.get("/aliases")["aliases"]}
        versions = [share["version"] for share in routes.get(name, []) if share["weight"]]
        if len(versions) != 1:
            found = f"several versions ({', '.join(versions)})" if versions else "no version"
            raise CommandError(
                f"The alias {name!r} leads to {found}.",
                do="Name the version that the adapter is made for: name@digest.",
            )
        name = versions[0]
    return msgspec.convert(api.get(f"/models/{name}"), ModelVersion)


TYPICAL_PROMPT, TYPICAL_OUTPUT = 1155, 211
"""Tokens of the mean conversation request of Azure's published LLM inference trace of 2023."""
