"""`penstock aliases …`: the names that callers use, with the versions or rules behind them."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import arguments, rule_file, screen
from penstock.cli.caller import as_caller
from penstock.cli.terminal import AsJson, err, out
from penstock.domain.command_error import CommandError
from penstock.local.connections import operator
from penstock.settings import load
from penstock.views import agreement, comparison, versions
from penstock.views import aliases as views

app = typer.Typer(no_args_is_help=True, help="Aliases: the names callers put into `model`.")


@app.command("set")
@as_caller
def set_alias(
    alias: Annotated[str, typer.Argument(help="The name that callers use.")],
    shares: Annotated[list[str], typer.Argument(help="VERSION, or several as VERSION=PERCENT that add up to 100.")],
    *,
    override: Annotated[
        list[str] | None, typer.Option(help="TENANT=VERSION: this tenant gets that version; may be repeated.")
    ] = None,
    no_overrides: Annotated[bool, typer.Option("--no-overrides", help="Remove all tenants' overrides.")] = False,
) -> None:
    """Point an alias at a version, or share it among several.

    For example:

    * `penstock aliases set chat smollm2-135m-instruct@0123456789ab`

    * `penstock aliases set chat old@0123456789ab=90 new@ba9876543210=10`

    * `penstock aliases set chat old@0123456789ab=90 new@ba9876543210=10 --override acme=new@ba9876543210`

    Without `--override` and `--no-overrides` the overrides stay as they are.
    """
    body: dict[str, object] = {"shares": [arguments.share(text) for text in shares]}
    if override or no_overrides:
        body["overrides"] = [arguments.override(text) for text in override or []]
    caller = operator(load())
    caller.put(f"/aliases/{alias}", body)
    out.print(f"{alias} → {', '.join(shares)}", highlight=False)
    named = {arguments.share(text)["version"] for text in shares}
    named |= {arguments.override(text)["version"] for text in override or []}
    for warning in versions.without_workers(caller.get("/models")["models"], named):
        err.print(f"Warning: {warning}", style="yellow", highlight=False, soft_wrap=True)


@app.command("remove")
@as_caller
def remove_alias(alias: Annotated[str, typer.Argument(help="The alias to remove.")]) -> None:
    """Remove an alias; requests that name it are refused from then on."""
    operator(load()).delete(f"/aliases/{alias}")
    out.print(f"{alias} is removed.")


@app.command("list")
@as_caller
def list_aliases(*, as_json: AsJson = False) -> None:
    """List the aliases with their versions or rules."""
    caller = operator(load())
    found = {**caller.get("/aliases"), **caller.get("/autos")}
    screen.tell(found, lambda: views.listed(found["aliases"], found["autos"]), as_json=as_json)


@app.command("auto")
@as_caller
def auto_alias(
    alias: Annotated[str, typer.Argument(help="The name that callers use, for example `auto`.")],
    *,
    file: Annotated[
        Path | None, typer.Option(help="A YAML file with its rules; without it the present rules are shown.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the name.")] = False,
    report: Annotated[bool, typer.Option("--report", help="Show how often the models of two rules agree.")] = False,
    hours: Annotated[float, typer.Option(min=0.1, max=168, help="The report covers these last hours.")] = 24.0,
    as_json: AsJson = False,
) -> None:
    """Make a name choose the model by rules: the first that fits decides, if its model can answer.

    Conditions narrow a rule: `prompt_tokens` at most, `apis` as paths, `tools` and `json` (true: only with, false:
    only without), `images` (true: this model sees them), `callers` (batch, free, paid, interactive), `price` in
    dollars for a million tokens at most, `deadline_s` at least. `compare` names another rule: its model gets copies
    of some requests, and `--report` shows how often it would have agreed. See docs/how-to/auto-alias.md.

    * `rules: [{name: short, to: smollm2, prompt_tokens: 1000}, {name: rest, to: big, compare: short}]`

    For example: `penstock aliases auto auto --file rules.yaml`, then `penstock aliases auto auto`
    """
    if (file is not None) + remove + report > 1:
        raise CommandError("--file, --remove and --report exclude each other.", do="Give one of them.")
    caller = operator(load())
    if remove:
        caller.delete(f"/autos/{alias}")
        out.print(f"{alias} is removed.", highlight=False)
        return
    if file is not None:
        caller.put(f"/autos/{alias}", {"rules": rule_file.read(file)})
    found = caller.get(f"/autos/{alias}/report?hours={hours:g}" if report else f"/autos/{alias}")
    view = agreement.shown(found) if report else views.rules(alias, found["history"])
    screen.tell(found, lambda: view, as_json=as_json)


@app.command("compare")
@as_caller
def compare_versions(
    alias: Annotated[str, typer.Argument(help="A name that several versions share.")], *, as_json: AsJson = False
) -> None:
    """Compare the versions that share an alias with the one that has the largest share, at any moment.

    Each line is one metric: a candidate is proven no worse (promote), clearly worse (hold, abort), or the evidence is
    too small (wait). A strength of 1 decides. Requests are compared with others of similar prompts and load.
    """
    found = operator(load()).get(f"/aliases/{alias}/comparison")
    screen.tell(found, lambda: comparison.shown(found), as_json=as_json)
