"""`penstock safety …`: packs of filter rules, and what they did."""

import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import typer

from penstock.cli import arguments, screen
from penstock.cli.caller import as_caller
from penstock.cli.terminal import AsJson, out
from penstock.domain.command_error import CommandError
from penstock.local.connections import operator
from penstock.settings import load
from penstock.views import safety as views
from penstock.views.elements import Record

app = typer.Typer(no_args_is_help=True, help="Safety packs: filters of prompts and answers.")
MOST = 1000
WOULD_BLOCK = 3
"""Exit code of `try`, apart from 1 for a failed command and 2 for wrong usage."""
Since = Annotated[str, typer.Option(help="In this last time, as 30m or 24h.")]
Tenant = Annotated[str, typer.Option(help="Only this tenant's.", show_default="all")]
PackName = Annotated[str, typer.Option("--pack", help="Only this pack's: secrets, or secrets@3.", show_default="all")]
Rule = Annotated[str, typer.Option(help="Only this rule's.", show_default="all")]
Source = Annotated[str, typer.Argument(help="A YAML file, or the name of a shipped pack: abuse, off, pii, secrets.")]


@app.command("packs")
@as_caller
def packs(*, as_json: AsJson = False) -> None:
    """List all versions of all packs, and the platform's floor."""
    found = operator(load()).get("/safety/packs")
    screen.tell(found, lambda: views.packs(found), as_json=as_json)


@app.command("show")
@as_caller
def show(pack: Annotated[str, typer.Argument(help="Its name, for example secrets.")]) -> None:
    """Print the rules of the pack that filters, as a YAML file.

    For example: `penstock safety show secrets > own.yaml`
    """
    import yaml

    text = operator(load()).get(f"/safety/packs/{pack}")["pack"]
    typer.echo(yaml.safe_dump(yaml.safe_load(text), sort_keys=False, allow_unicode=True), nl=False)


@app.command("push")
@as_caller
def push(source: Source) -> None:
    """Check a pack and filter with it; gateways have it within a second.

    A pack that is not valid is refused with its rule and the reason; the present one filters on.

    For example: `penstock safety push own.yaml`
    """
    made = operator(load()).post("/safety/packs", {"pack": _text(source)})
    _tell(made, f"filters; {len(made['rules'])} rules, {made['mode']}.")


@app.command("rollback")
@as_caller
def rollback(
    pack: Annotated[str, typer.Argument(help="Its name, for example secrets.")],
    to: Annotated[int, typer.Option(min=0, help="The version; 0 for the one below the present.")] = 0,
) -> None:
    """Filter with an earlier version of a pack again.

    For example: `penstock safety rollback secrets`
    """
    made = operator(load()).post(f"/safety/packs/{pack}/rollback", {"version": to or None})
    _tell(made, "filters again.")


@app.command("assign")
@as_caller
def assign(
    names: Annotated[str, typer.Argument(metavar="PACKS", help="Packs as A,B; none to take all away.")],
    tenant: Annotated[str, typer.Option(help="A tenant.", show_default="the whole platform: its floor")] = "",
) -> None:
    """Set the packs of a tenant, or the floor that holds for every request.

    A request is filtered by the strictest of the floor, its model's packs and its tenant's.

    For example:

    * `penstock safety assign secrets,pii --tenant shop`

    * `penstock safety assign secrets`
    """
    api, wanted = operator(load()), [] if names == "none" else names.split(",")
    if tenant:
        api.patch(f"/tenants/{tenant}/plan", {"safety": ",".join(wanted)})
    else:
        api.put("/safety/floor", {"packs": wanted})
    out.print(f"{tenant or 'every request'}: {', '.join(wanted) or 'no packs'}", highlight=False)


@app.command("try")
def try_pack(
    source: Source,
    text: Annotated[str, typer.Argument(help="A text file, or - for standard input.")] = "-",
    *,
    as_json: AsJson = False,
) -> None:
    """Show what a pack would do to a text, here and without a platform; exit code 3 if it would block.

    For example: `penstock safety try own.yaml answer.txt`
    """
    found = _tried(_text(source), sys.stdin.read() if text == "-" else _read(Path(text)))
    screen.tell({"found": found}, lambda: views.tried(found), as_json=as_json)
    if any(one["action"] == "block" for one in found):
        raise typer.Exit(WOULD_BLOCK)


@app.command("events")
@as_caller
def events(  # noqa: PLR0913  one for each option
    since: Since = "24h",
    tenant: Tenant = "",
    pack: PackName = "",
    rule: Rule = "",
    request: Annotated[str, typer.Option(help="Only of this request.", show_default="all")] = "",
    *,
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="The number of interventions.")] = 50,
    text: Annotated[bool, typer.Option("--text", help="With the matched texts that a tenant keeps.")] = False,
    as_json: AsJson = False,
) -> None:
    """List what filters did, newest first, without any text.

    A tenant keeps texts by its plan: `penstock tenants plan demo keep_matches_s=86400`. Each look at them is an act.

    For example:

    * `penstock safety events --tenant demo --since 1h`

    * `penstock safety events --tenant demo --text`
    """
    asked = {**_asked(since, tenant, pack, rule), "request": request, "limit": limit}
    if text:
        kept = operator(load()).post("/safety/matches", asked)
        screen.tell(kept, lambda: views.matches(kept["matches"]), as_json=as_json)
        return
    found = operator(load()).get(f"/safety/events?{urlencode(asked)}")
    screen.tell(found, lambda: views.events(found["events"]), as_json=as_json)


@app.command("stats")
@as_caller
def stats(
    since: Since = "24h", tenant: Tenant = "", pack: PackName = "", rule: Rule = "", *, as_json: AsJson = False
) -> None:
    """Report what each rule did, or would have done, in which part of each tenant's requests.

    Push a new pack with `mode: observe` first: the report says what `enforce` would have refused, ended and masked.

    For example: `penstock safety stats --pack own --since 7h`
    """
    found = operator(load()).get(f"/safety/stats?{urlencode(_asked(since, tenant, pack, rule))}")
    screen.tell(found, lambda: views.stats(found, since), as_json=as_json)


def _tell(made: Record, says: str) -> None:
    out.print("\n".join([f"{made['id']}@{made['version']} {says}", *views.away(made)]), highlight=False)


def _tried(source: str, text: str) -> list[dict[str, object]]:
    """Return each rule's matches; those that overlap are one."""
    from penstock.filters.judge import Judge
    from penstock.filters.pack import strictest
    from penstock.filters.reading import parse
    from penstock.filters.whole import spans

    rules = [one.rule for one in strictest([parse(source.encode())]).rules]
    found: list[dict[str, object]] = []
    ends = dict.fromkeys(range(len(rules)), 0)
    for number, start, end in sorted(spans(Judge(rules), text), key=lambda one: one.start):
        if start >= ends[number]:
            rule = rules[number]
            found.append(
                {
                    "rule": rule.name,
                    "category": rule.category,
                    "action": rule.action,
                    "at": start,
                    "characters": end - start,
                }
            )
        ends[number] = max(ends[number], end)
    return found


def _asked(since: str, tenant: str, pack: str, rule: str) -> dict[str, object]:
    from penstock.domain.clock import SystemClock

    return {"since": SystemClock().now() - arguments.length(since), "tenant": tenant, "pack": pack, "rule": rule}


def _text(source: str) -> str:
    from penstock.filters import shipped

    return shipped.text(source).decode() if source in shipped.NAMES else _read(Path(source))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        do = "Name a file in UTF-8, - for standard input, or a pack that ships."
        raise CommandError(f"{path} can't be read: {error}.", do=do) from error
