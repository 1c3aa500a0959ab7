"""`penstock rollout …`: a candidate takes over an alias, stage by stage."""

import time
from collections.abc import Iterator
from itertools import count
from typing import Annotated, Any

import typer

from penstock.cli import screen
from penstock.cli.caller import as_caller
from penstock.cli.terminal import AsJson, tell_json
from penstock.domain.command_error import CommandError
from penstock.domain.fleet.table import WEIGHT_TOTAL
from penstock.domain.rollout.rollout import PATIENCE_S, STAGES, Kind
from penstock.domain.serving.shadow import ShadowCaps
from penstock.local.connections import operator
from penstock.settings import load
from penstock.views import rollouts as views
from penstock.views.elements import line

app = typer.Typer(
    no_args_is_help=True, help="Rollouts: move an alias to a candidate version in steps, judged on live traffic."
)

_LOOK_S = 1.0
_SAID_EVERY = 10
"""Polls between two lines of the judge's verdict."""
_NO_SHARE = "shadow"
_SHARES = ",".join(f"{stage.weight * 100 / WEIGHT_TOTAL:g}" for stage in STAGES if not stage.watched)

Alias = Annotated[str, typer.Argument(help="The alias, or the id of its rollout.")]
Kinds = Annotated[
    Kind, typer.Option("--kind", help="The same model made otherwise, for example quantised, or another model.")
]
Shares = Annotated[
    str, typer.Option("--shares", help="The candidate's shares in percent, ascending: 0 for copies alone, 100 at last.")
]
Patience = Annotated[
    float, typer.Option("--patience-s", min=0, help="Seconds without a proof after which a share is held.")
]
Copies = Annotated[float, typer.Option("--copies", min=0, help="Shadow copies a second from each gateway; 0 for none.")]
Reason = Annotated[str, typer.Option(help="The reason, for the history and the audit log.")]
Override = Annotated[
    bool, typer.Option("--override-budget", help="Go on although the error budget is spent; needs --reason.")
]


@app.command("start")
@as_caller
def start(  # noqa: PLR0913  one for each option
    alias: Annotated[str, typer.Argument(help="The alias; its present version is the incumbent.")],
    candidate: Annotated[str, typer.Argument(help="The candidate version, as name@digest.")],
    *,
    kind: Kinds = Kind.EQUIVALENT,
    shares: Shares = _SHARES,
    stage_s: Annotated[float, typer.Option(min=0, help="The least seconds of each stage.")] = STAGES[0].min_s,
    watch_s: Annotated[float, typer.Option(min=0, help="Seconds of the final watch at 100 %.")] = STAGES[-1].min_s,
    patience_s: Patience = PATIENCE_S,
    guard: Annotated[
        bool, typer.Option("--guard", help="Let automation abort also after a person has promoted the candidate.")
    ] = False,
    stay_out: Annotated[list[str] | None, typer.Option("--out", help="A tenant that keeps the incumbent.")] = None,
    first: Annotated[
        list[str] | None, typer.Option("--first", help="A tenant that gets the candidate at once.")
    ] = None,
    most_tokens: Annotated[
        float,
        typer.Option(
            min=0, max=100, help="Hold the rollout if the candidate exceeds this share of all tokens, in percent."
        ),
    ] = 100.0,
    copies: Copies = ShadowCaps().per_s,
    accept_dearer: Annotated[
        bool, typer.Option("--accept-dearer", help="Accept a candidate with higher prices.")
    ] = False,
    override_budget: Override = False,
    reason: Reason = "",
) -> None:
    """Give a candidate a small share of an alias, and more as the evidence proves it no worse.

    It is held or aborted automatically if the evidence is against it; then the incumbent has its whole share back.
    A caller keeps its version while a share grows: by its `x-penstock-session` header, else by the request's `user`,
    else by tenant. --most-tokens bounds the part of the tokens.

    For example:

    * `penstock rollout start chat smollm2-135m-instruct@0123456789ab`

    * `penstock rollout start chat smollm2-135m-instruct@0123456789ab --shares 0,5,50,100 --out careful-tenant`
    """
    body = {
        "alias": alias,
        "candidate": candidate,
        "kind": kind,
        "stages": _stages(shares, stage_s, watch_s),
        "patience_s": patience_s,
        "guard": guard,
        "blast": {"tokens_ratio": most_tokens / 100, "out": stay_out or [], "first": first or []},
        "shadow": {"per_s": copies},
        "accept_dearer": accept_dearer,
        "override_budget": override_budget,
        "reason": reason,
    }
    screen.show(views.shown(operator(load()).post("/rollouts", body)))


@app.command("plan")
@as_caller
def plan(  # noqa: PLR0913  one for each option
    alias: Annotated[str, typer.Argument(help="The alias; its present version is the incumbent.")],
    candidate: Annotated[str, typer.Argument(help="The candidate version, as name@digest.")],
    *,
    kind: Kinds = Kind.EQUIVALENT,
    shares: Shares = _SHARES,
    patience_s: Patience = PATIENCE_S,
    hours: Annotated[float, typer.Option(min=0.01, max=168, help="Plan with the traffic of these last hours.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Estimate the time and the detectable faults of each share, and name the shares with too little traffic.

    Nothing is started. The figures assume similar load on the workers of both versions.

    For example: `penstock rollout plan chat smollm2-135m-instruct@0123456789ab --shares 25,50,100 --hours 24`
    """
    body = {
        "alias": alias,
        "candidate": candidate,
        "kind": kind,
        "stages": _stages(shares, STAGES[0].min_s, STAGES[-1].min_s),
        "patience_s": patience_s,
    }
    found = operator(load()).post(f"/rollout-plans?hours={hours:g}", body)
    screen.tell(found, lambda: views.planned(alias, found), as_json=as_json)


@app.command("status")
@as_caller
def status(
    alias: Annotated[str, typer.Argument(help="The alias, or the id of a rollout; without it all, newest first.")] = "",
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print further changes, until the rollout is over.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the stage of rollouts, the judge's present verdict, and the history."""
    if not alias:
        found = operator(load()).get("/rollouts")
        screen.tell(found, lambda: views.listed(found["rollouts"]), as_json=as_json)
        return
    whole = _whole(alias)
    if as_json:
        tell_json(whole)
        return
    screen.show(views.shown(whole))
    for said in _following(whole) if follow else ():
        screen.show(line(said))


@app.command("hold")
@as_caller
def hold(alias: Alias, *, reason: Reason) -> None:
    """Keep a rollout at its share until it is resumed."""
    _move(alias, "hold", reason)


@app.command("resume")
@as_caller
def resume(alias: Alias, *, reason: Reason) -> None:
    """Continue a held rollout from its share."""
    _move(alias, "resume", reason)


@app.command("promote")
@as_caller
def promote(alias: Alias, *, reason: Reason, override_budget: Override = False) -> None:
    """Give the candidate its next share whatever the evidence says: you have checked it yourself.

    Automation then undoes nothing at that share, unless the rollout was started with --guard: it only proposes. At 100
    % the watch follows; at its end, or with another promotion, the incumbent is released.
    """
    _move(alias, "promote", reason, override_budget=override_budget)


@app.command("abort")
@as_caller
def abort(alias: Alias, *, reason: Reason) -> None:
    """Give the incumbent its whole share back at once. Running answers end at the version that began them."""
    _move(alias, "abort", reason)


def _move(alias: str, word: str, reason: str, *, override_budget: bool = False) -> None:
    whole = _whole(alias)
    body = {"reason": reason, "override_budget": override_budget, "stage": whole["stage"]}
    screen.show(views.shown(operator(load()).post(f"/rollouts/{whole['id']}/{word}", body)))


def _id_of(alias: str) -> str:
    found = operator(load()).get("/rollouts")["rollouts"]
    ids = [one["id"] for one in found if alias in (one["id"], one["alias"])]
    if not ids:
        raise CommandError(f"{alias!r} has no rollout.", do="List them with `penstock rollout status`, or start one.")
    return str(ids[0])


def _whole(alias: str) -> dict[str, Any]:
    return operator(load()).get(f"/rollouts/{_id_of(alias)}")


def _following(whole: dict[str, Any]) -> Iterator[str]:
    """Yield each change, and regularly the judge's verdict, until the rollout is over."""
    told, said, caller = len(whole["history"]), "", operator(load())
    for look in count(1):
        now = caller.get(f"/rollouts/{whole['id']}")
        yield from (views.happened(now, change) for change in now["history"][told:])
        told = len(now["history"])
        if now["state"] in ("aborted", "done"):
            return
        if look % _SAID_EVERY == 0 and (says := views.judged(now)) not in ("", said):
            yield says
            said = says
        time.sleep(_LOOK_S)


def _stages(shares: str, stage_s: float, watch_s: float) -> list[dict[str, object]]:
    """Return the stages of these shares in percent, followed by the watch."""
    try:
        weights = [round(float(text) / 100 * WEIGHT_TOTAL) for text in shares.split(",")]
    except ValueError as error:
        raise CommandError(f"{shares!r} is not a list of shares.", do="Write percentages: 1,5,25,50,100.") from error
    stages: list[dict[str, object]] = [
        {"name": f"{weight * 100 / WEIGHT_TOTAL:g} %" if weight else _NO_SHARE, "weight": weight, "min_s": stage_s}
        for weight in weights
    ]
    return [*stages, {"name": "watched", "weight": WEIGHT_TOTAL, "min_s": watch_s, "watched": True}]
