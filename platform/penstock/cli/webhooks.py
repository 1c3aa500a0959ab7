"""`penstock webhooks …`: a tenant's receivers of events, and what was delivered to them."""

from typing import Annotated, Any

import typer

from penstock.cli import screen
from penstock.cli.deferred import Gateway, Key
from penstock.cli.terminal import AsJson, out
from penstock.domain.command_error import CommandError
from penstock.local import connections
from penstock.settings import load
from penstock.views import deferred as views

app = typer.Typer(
    no_args_is_help=True,
    help="Webhooks: events of jobs, batches, responses and budgets, sent to a tenant's own receivers.",
)
Id = Annotated[str, typer.Argument(metavar="WEBHOOK", help="A webhook's id: we_….", show_default=False)]
Events = Annotated[
    list[str] | None,
    typer.Option(
        "--event",
        help="A type of event; may be repeated. none: only jobs that name it.",
        show_default="all; update: as they are",
    ),
]


def _ask(at: tuple[str, str], method: str, path: str = "", body: object = None, **query: object) -> Any:  # noqa: ANN401
    from penstock.clients.deferred import ask

    with connections.gateway(load(), *at) as http:
        return ask(http, method, path, body, query or None)


def _types(events: list[str]) -> list[str]:
    return [] if events == ["none"] else events


@app.command("create")
def create_webhook(
    url: Annotated[str, typer.Argument(help="The receiver: https://HOST/PATH.", show_default=False)],
    events: Events = None,
    key: Key = "",
    *,
    gateway: Gateway = "",
    as_json: AsJson = False,
) -> None:
    """Add a receiver and show its signing secret, this one time.

    For example:

    * `penstock webhooks create https://example.com/hooks`

    * `penstock webhooks create https://example.com/hooks --event batch.completed --event batch.failed`
    """
    made = _ask((key, gateway), "POST", "", {"url": url} | ({"events": _types(events)} if events else {}))
    screen.tell(made, lambda: views.made(made), as_json=as_json)


@app.command("list")
def list_webhooks(key: Key = "", gateway: Gateway = "", *, as_json: AsJson = False) -> None:
    """Show the tenant's webhooks: state, events, since when one fails.

    For example: `penstock webhooks list`.
    """
    found = _ask((key, gateway), "GET")
    screen.tell(found, lambda: views.endpoints(found["data"]), as_json=as_json)


@app.command("update")
def update_webhook(  # noqa: PLR0913  the command's options
    webhook: Id,
    url: Annotated[str, typer.Option(help="Another receiver.", show_default="as it is")] = "",
    events: Events = None,
    key: Key = "",
    *,
    gateway: Gateway = "",
    enabled: Annotated[bool | None, typer.Option("--on/--off", help="Whether events are sent to it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change a webhook, or turn it on or off.

    For example: `penstock webhooks update we_0123456789abcdef0123456789abcdef --on`.
    """
    given = {"url": url or None, "events": _types(events) if events else None, "enabled": enabled}
    body = {name: value for name, value in given.items() if value is not None}
    if not body:
        raise CommandError("There is nothing to change.", do="Give --url, --event, --on or --off.")
    changed = _ask((key, gateway), "POST", f"/{webhook}", body)
    screen.tell(changed, lambda: views.made(changed), as_json=as_json)


@app.command("delete")
def delete_webhook(webhook: Id, key: Key = "", gateway: Gateway = "") -> None:
    """Remove a webhook with its deliveries."""
    _ask((key, gateway), "DELETE", f"/{webhook}")
    out.print(f"{webhook} is deleted.", highlight=False)


@app.command("rotate")
def rotate_secret(
    webhook: Id,
    overlap_s: Annotated[float, typer.Option(help="Seconds for which the former secret signs, too.")] = 86_400.0,
    key: Key = "",
    *,
    gateway: Gateway = "",
    as_json: AsJson = False,
) -> None:
    """Exchange a webhook's signing secret and show the new one, this one time.

    For example: `penstock webhooks rotate we_0123456789abcdef0123456789abcdef --overlap-s 3600`.
    """
    made = _ask((key, gateway), "POST", f"/{webhook}/rotate", {"overlap_s": overlap_s})
    screen.tell(made, lambda: views.made(made), as_json=as_json)


@app.command("test")
def send_test(webhook: Id, key: Key = "", gateway: Gateway = "") -> None:
    """Send a `webhook.test` event to a webhook; `deliveries` shows what came of it."""
    _ask((key, gateway), "POST", f"/{webhook}/test")
    out.print(f"A test event is sent; see `penstock webhooks deliveries {webhook}`.", highlight=False)


@app.command("deliveries")
def show_deliveries(
    webhook: Id,
    state: Annotated[str, typer.Option(help="due, sending, delivered or failed.", show_default="all")] = "",
    limit: Annotated[int, typer.Option(help="The most deliveries shown.", min=1, max=100)] = 20,
    key: Key = "",
    *,
    gateway: Gateway = "",
    as_json: AsJson = False,
) -> None:
    """Show a webhook's deliveries, the newest first.

    For example: `penstock webhooks deliveries we_0123456789abcdef0123456789abcdef --state failed`.
    """
    query: dict[str, object] = {"limit": limit} | ({"state": state} if state else {})
    found = _ask((key, gateway), "GET", f"/{webhook}/deliveries", None, **query)
    screen.tell(found, lambda: views.deliveries(found["data"]), as_json=as_json)


@app.command("replay")
def replay_deliveries(
    webhook: Id,
    delivery: Annotated[str, typer.Option(help="This delivery alone: whd_….", show_default="all failed")] = "",
    since: Annotated[float, typer.Option(help="Of the failed ones, those since this Unix second.")] = 0.0,
    key: Key = "",
    gateway: Gateway = "",
) -> None:
    """Send failed deliveries again, or one delivery whatever came of it, under the same webhook-id.

    For example:

    * `penstock webhooks replay we_0123456789abcdef0123456789abcdef`

    * `penstock webhooks replay we_0123456789abcdef0123456789abcdef --delivery whd_0000002a`
    """
    path = f"/{webhook}/deliveries/{delivery}/replay" if delivery else f"/{webhook}/replay"
    replayed = _ask((key, gateway), "POST", path, None if delivery else {"since": since})
    out.print(f"{replayed['deliveries']} deliveries are sent again.", highlight=False)
