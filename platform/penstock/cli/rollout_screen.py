"""Rollouts on the screen: how far it is, what speaks for and against it, and what happened."""

from collections.abc import Iterator, Sequence
from typing import Any

from penstock.cli import comparison, tables
from penstock.cli.terminal import out

_MARKS = {"aborted": "✗", "done": "✓", "held": "‖", "frozen": "‖", "running": "●"}


def listed(found: Sequence[dict[str, Any]]) -> None:
    """Print one line for each."""
    rows = [
        (
            one["alias"],
            one["id"],
            one["state"],
            _percent(one["weight"]),
            one["candidate"],
            one["incumbent"],
            tables.when(one["began_at"]),
        )
        for one in found
    ]
    tables.show("Rollouts", ("alias", "id", "state", "share", "candidate", "beside", "began"), rows)


def planned(alias: str, found: dict[str, Any]) -> None:
    """Print what each share would need and find."""
    wrong = list(found["stages"][0]["finds_s"])
    rows = [
        (
            one["name"],
            _rate(one["per_s"]),
            "too thin" if one["needs_s"] is None else _span(one["needs_s"]),
            *(_span(one["finds_s"].get(what)) for what in wrong),
            one["workers"],
            "-" if one["worker_hours"] is None else f"{one['worker_hours']:.2g}",
        )
        for one in found["stages"]
    ]
    title = f"{alias}: requests {_rate(found['per_s'])} on average over the last {_span(found['over_s'])}"
    columns = ("share", "requests", "proof after", *(f"finds {what}" for what in wrong), "workers", "worker hours")
    tables.show(title, columns, rows, [one["lacks"] for one in found["stages"]])
    if found["takes_s"] is not None:
        out.print(f"If nothing is wrong it takes {_span(found['takes_s'])} in all.", **_PLAIN)
        return
    if any(one["needs_s"] is not None for one in found["stages"]):
        out.print("Leave out what is too thin with --shares, or give it more time with --patience-s.", **_PLAIN)
    out.print("If other hours have more traffic, plan with those: --hours 24, or --hours 0.1 for this one.", **_PLAIN)


def show(one: dict[str, Any]) -> None:
    """Print one whole: its way, the judge's words, its history."""
    out.print(f"{one['alias']}: {one['candidate']} beside {one['incumbent']}  ({one['id']})", style="bold", **_PLAIN)
    out.print(f"  {_way(one)}", **_PLAIN)
    for said in (f"{one['state']} with {_percent(one['weight'])}; {_automation(one)}", *_exempt(one), *_next(one)):
        out.print(f"  {said}", **_PLAIN)
    if judgement := one.get("judgement"):
        out.print()
        comparison.show({"alias": one["alias"], "pairs": [{"incumbent": one["incumbent"], "judgement": judgement}]})
    if history := one.get("history", ()):
        out.print()
        out.print("history (UTC)", style="dim", **_PLAIN)
    for change in history:
        told(line(one, change))


def line(one: dict[str, Any], change: dict[str, Any]) -> str:
    """Return one line of the history."""
    stage = one["stages"][change["stage"]]["name"]
    return f"{tables.when(change['at'])}  {change['state']:<8} {stage:<8} {change['actor']}: {change['says']}"


def judged(one: dict[str, Any]) -> str:
    """Return what the judge says now, as a line below those of the history; empty where nobody judges."""
    if not (judgement := one.get("judgement")):
        return ""
    stage = one["stages"][one["stage"]]["name"]
    return f"{tables.when(judgement['at'])}  {'judge':<8} {stage:<8} {comparison.brief(judgement)}"


def told(text: str) -> None:
    """Print one of these lines; nothing where it says nothing."""
    if text:
        out.print(text, **_PLAIN)


_PLAIN: Any = {"highlight": False, "markup": False, "soft_wrap": True}


def _way(one: dict[str, Any]) -> str:
    """Return the stages in a row: those behind it, where it is, those to come."""
    shown = []
    for number, stage in enumerate(one["stages"]):
        is_here = number == one["stage"]
        mark = _MARKS[one["state"]] if is_here else "✓" if number < one["stage"] else " "
        shown.append(f"[{mark}] {stage['name']}")
    return "  ".join(shown)


def _automation(one: dict[str, Any]) -> str:
    """Say what may happen to it by itself."""
    if one["state"] in ("aborted", "done"):
        return "it is over"
    if one["by_person"] and not one["guard"]:
        return "a person promoted it here, so nothing is undone by itself (no --guard)"
    return "it is aborted by itself where it is clearly worse"


def _exempt(one: dict[str, Any]) -> Iterator[str]:
    """Say who has a version whatever the share is."""
    if one["state"] in ("aborted", "done"):
        return
    for tenants, version in ((one["blast"]["out"], one["incumbent"]), (one["blast"]["first"], one["candidate"])):
        if tenants:
            yield f"{', '.join(tenants)}: {version} at every share, until it is over"


def _next(one: dict[str, Any]) -> Iterator[str]:
    """Say what a person can do about one that stands still."""
    why = next((f": {change['says']}" for change in reversed(one.get("history", ()))), "")
    if one["state"] == "held":
        yield f"it stays here until somebody acts{why}"
        yield f"`penstock rollout resume {one['alias']} --reason WHY` goes on from here, {_OTHERS}"
        yield from _over_blast(one)
    if one["state"] == "done":
        yield f"the old version's workers still run: `penstock models scale {one['incumbent']} 0` ends them"
        yield f"`penstock aliases set {one['alias']} {one['incumbent']}` goes back, while they serve"
    if one["state"] == "aborted":
        yield f"its workers still run: `penstock models scale {one['candidate']} 0` ends them"
    if one.get("proposed") and one["state"] not in ("aborted", "done"):
        verdict = one.get("proposes") or "undo"
        yield f"automation proposes to {verdict} it: `penstock rollout {_does(verdict)} {one['alias']} --reason WHY`"
    if one["state"] == "frozen":
        yield f"it goes on by itself when the error budget is not spent any more{why}"


_OTHERS = "`promote` gives it its next share, `abort` gives it all back"


def _does(verdict: str) -> str:
    return verdict if verdict in ("hold", "abort") else "abort"


def _over_blast(one: dict[str, Any]) -> Iterator[str]:
    """Say that a resumed one would be held again at once."""
    ratio, most = (one.get("judgement") or {}).get("tokens_ratio"), one["blast"].get("tokens_ratio", 1.0)
    if ratio is not None and ratio > most:
        yield f"it has {ratio:.0%} of the tokens, and {most:.0%} may: resumed, it is held again until that is less"


def _span(seconds: float | None) -> str:
    """Say a time: seconds up to two minutes, minutes up to two hours."""
    if seconds is None:
        return "-"
    if seconds < 120:  # noqa: PLR2004
        return f"{seconds:.0f} s"
    if seconds < 7200:  # noqa: PLR2004
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172800 else f"{seconds / 86400:.0f} days"  # noqa: PLR2004


def _rate(per_s: float) -> str:
    """Say a rate: by the second, or by the hour where that is a small part of one."""
    if per_s >= 0.01:  # noqa: PLR2004
        return f"{per_s:.3g}/s"
    return f"{per_s * 3600:.2g}/h"


def _percent(weight: int) -> str:
    return f"{weight / 100:g} %"
