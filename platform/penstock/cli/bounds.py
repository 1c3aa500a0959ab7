"""Plans on the command line: ``requests_per_min=60 spend_per_day=2.50``. Money is in dollars."""

from collections.abc import Iterable

from penstock.cli.arguments import micro_usd
from penstock.domain.command_error import CommandError
from penstock.views.tenants import DOLLARS, FIELDS, NUMBERS, YES_OR_NO

WORDS = ("priority", "over_quota")
CAPS = (
    "max_output_tokens",
    "max_concurrent",
    "max_streams",
    "requests_per_min",
    "tokens_per_min",
    *DOLLARS,
    "deadline_s",
)
"""The bounds that a key or an organisation may have: the rest is its tenant's."""
CAPS_HELP = f"FIELD=VALUE, 0 for no bound; fields: {', '.join(CAPS)} (money in dollars)."
HELP = (
    f"FIELD=VALUE, 0 for no bound; fields: {', '.join(FIELDS)} (money in dollars, paid=yes or no, "
    "over_quota=refuse or yield, copied=yes or no, reserved as a part of each engine)."
)


def parsed(pairs: Iterable[str]) -> dict[str, object]:
    """Return the operators' API's fields; ``CommandError`` names the pair at fault."""
    return dict(_pair(pair) for pair in pairs)


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
