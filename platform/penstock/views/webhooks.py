"""Webhook endpoints and their deliveries."""

from collections.abc import Iterator, Sequence

from penstock.views.elements import Listing, Record, Shown, Style, line, listing
from penstock.views.words import when


def endpoints(found: Sequence[Record]) -> Listing:
    return listing("Webhooks", ("id", "url", "events", "state", "failing since"), map(_row, found))


def made(one: Record) -> Iterator[Shown]:
    yield listing("Webhook", ("id", "url", "events", "state", "failing since"), [_row(one)])
    if "secret" in one:
        yield line("secret: ", (one["secret"], Style.STRONG), " - shown this one time")
    if one["former_secret_until"]:
        yield line(f"The former secret signs, too, until {when(one['former_secret_until'])} UTC.")


def deliveries(found: Sequence[Record]) -> Listing:
    columns = ("id", "event", "about", "state", "attempts", "last answer", "next attempt")
    rows = [
        (
            one["id"],
            one["event"]["type"],
            one["event"]["data"]["id"],
            one["state"],
            one["attempts"],
            one["last_error"] if not one["last_status"] else one["last_status"],
            when(one["next_attempt_at"] or 0),
        )
        for one in found
    ]
    return listing("Deliveries", columns, [[cell or "-" for cell in row] for row in rows])


def _row(one: Record) -> tuple[str, ...]:
    state = "on" if one["enabled"] else f"off ({one['disabled_reason']})"
    events = ", ".join(one["events"]) or "only jobs that name it"
    return one["id"], one["url"], "all" if events == "*" else events, state, when(one["failing_since"] or 0)
