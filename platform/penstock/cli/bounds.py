"""Plans on the command line: ``requests_per_min=60 spend_per_day=2.50`` in, the same words out. Money is in dollars."""

from collections.abc import Iterable, Mapping
from decimal import Decimal, DecimalException

from penstock.domain.command_error import CommandError

NUMBERS = (
    "weight",
    "max_output_tokens",
    "max_concurrent",
    "max_streams",
    "requests_per_min",
    "tokens_per_min",
    "degrade_output_tokens",
)
DOLLARS = ("spend_per_day", "spend_per_month")
WORDS = ("priority", "over_quota")
YES_OR_NO = ("paid", "copied")
PLAIN = {"priority": "standard", "weight": 1, "over_quota": "refuse", "paid": True, "copied": True}
"""What is not said of a plan, beside bounds of zero."""
FIELDS = ("priority", *NUMBERS, *DOLLARS, "degrade_model", "deadline_s", "paid", "over_quota", "copied", "reserved")
CAPS = (
    "max_output_tokens",
    "max_concurrent",
    "max_streams",
    "requests_per_min",
    "tokens_per_min",
    *DOLLARS,
    "deadline_s",
)
"""What a key or an organisation may have: the rest is its tenant's."""
CAPS_HELP = f"FIELD=VALUE, 0 for no bound; fields: {', '.join(CAPS)} (money in dollars)."
HELP = (
    f"FIELD=VALUE, 0 for no bound; fields: {', '.join(FIELDS)} (money in dollars, paid=yes or no, "
    "over_quota=refuse or yield, copied=yes or no, reserved as a part of each engine)."
)
MICRO = 1_000_000
MOST = 2**53
"""More micro-dollars than meters count exactly."""


def parsed(pairs: Iterable[str]) -> dict[str, object]:
    """Return the operator API's fields, or raise ``CommandError`` that names the pair at fault."""
    return dict(_pair(pair) for pair in pairs)


def micro_usd(dollars: str) -> int:
    """Return dollars as whole micro-dollars, or raise ``CommandError``."""
    try:
        amount = Decimal(dollars) * MICRO
        if 0 <= amount <= MOST and amount == amount.to_integral_value():
            return int(amount)
    except DecimalException:
        pass
    raise CommandError(f"{dollars!r} is no amount of dollars.", do="Give for example 2.50; the smallest is 0.000001.")


def described(plan: Mapping[str, object]) -> str:
    """Describe a plan's bounds, those that are any."""
    bounds = {name: plan[name] for name in FIELDS if name in plan and plan[name] != PLAIN.get(name)}
    return " ".join(f"{name}={_word(name, value)}" for name, value in bounds.items() if value or name in YES_OR_NO)


def _word(name: str, value: object) -> object:
    if name in YES_OR_NO:
        return "yes" if value else "no"
    return dollars(value) if name in DOLLARS else value


def dollars(micro: object) -> str:
    """Say micro-dollars as dollars: two digits at least, and as many as it takes."""
    whole, _, cents = f"{Decimal(str(micro)) / MICRO:.6f}".partition(".")
    return f"{whole}.{cents.rstrip('0'):0<2}"


def _pair(pair: str) -> tuple[str, object]:
    name, _, value = pair.partition("=")
    if name not in FIELDS or not value:
        raise CommandError(f"{pair!r} is no bound.", do=f"Give FIELD=VALUE with one of: {', '.join(FIELDS)}.")
    if name in DOLLARS:
        return name, micro_usd(value)
    if name in WORDS:
        return name, value
    if name in YES_OR_NO and value in ("yes", "no"):
        return name, value == "yes"
    if name == "degrade_model":
        return name, "" if value == "0" else value
    try:
        return name, int(value) if name in NUMBERS else float(value)
    except ValueError as error:
        raise CommandError(f"{value!r} is no number for {name}.", do=f"Give for example {name}=60.") from error
