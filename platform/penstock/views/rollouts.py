"""Rollouts: stage, verdict, history, and the next steps for the operator."""

from collections.abc import Callable, Iterator, Sequence

from penstock.views import comparison
from penstock.views.elements import Cell, Listing, Record, Shown, Style, line, of, table
from penstock.views.words import percent, rate, span, when

_MARKS = {"aborted": "✗", "done": "✓", "held": "‖", "frozen": "‖", "running": "●"}


def listed(found: Sequence[Record]) -> Listing:
    columns = {"alias": "alias", "id": "id", "state": "state", "share": of(percent, "weight")}
    versions = {"candidate": "candidate", "beside": "incumbent"}
    return table("Rollouts", found, {**columns, **versions, "began": of(when, "began_at")})


def planned(alias: str, found: Record) -> Iterator[Shown]:
    finds = {f"finds {what}": of(_found_in(what), "finds_s") for what in found["stages"][0]["finds_s"]}
    proof = of(lambda needs_s: "too thin" if needs_s is None else span(needs_s), "needs_s")
    hours = of(lambda hours: "-" if hours is None else f"{hours:.2g}", "worker_hours")
    columns: dict[str, Cell] = {"share": "name", "requests": of(rate, "per_s"), "proof after": proof, **finds}
    title = f"{alias}: requests {rate(found['per_s'])} on average over the last {span(found['over_s'])}"
    stages = {**columns, "workers": "workers", "worker hours": hours}
    yield table(title, found["stages"], stages, lambda one: str(one["lacks"]))
    if found["takes_s"] is not None:
        yield line(f"If nothing is wrong it takes {span(found['takes_s'])} in all.")
        return
    if any(one["needs_s"] is not None for one in found["stages"]):
        yield line("Leave out what is too thin with --shares, or give it more time with --patience-s.")
    yield line("If other hours have more traffic, plan with those: --hours 24, or --hours 0.1 for this one.")


def _found_in(what: str) -> Callable[[Record], str]:
    return lambda finds_s: span(finds_s.get(what))


def shown(one: Record) -> Iterator[Shown]:
    yield line((f"{one['alias']}: {one['candidate']} beside {one['incumbent']}  ({one['id']})", Style.STRONG))
    yield line(f"  {_way(one)}")
    for said in (f"{one['state']} with {percent(one['weight'])}; {_automation(one)}", *_exempt(one), *_next(one)):
        yield line(f"  {said}")
    if judgement := one.get("judgement"):
        yield line()
        yield from comparison.judged(one["incumbent"], judgement)
    if history := one.get("history", ()):
        yield line()
        yield line(("history (UTC)", Style.MUTED))
        yield from (line(happened(one, change)) for change in history)


def happened(one: Record, change: Record) -> str:
    stage = one["stages"][change["stage"]]["name"]
    return f"{when(change['at'])}  {change['state']:<8} {stage:<8} {change['actor']}: {change['says']}"


def judged(one: Record) -> str:
    if not (judgement := one.get("judgement")):
        return ""
    stage = one["stages"][one["stage"]]["name"]
    return f"{when(judgement['at'])}  {'judge':<8} {stage:<8} {comparison.brief(judgement)}"


def _way(one: Record) -> str:
    shown = []
    for number, stage in enumerate(one["stages"]):
        is_here = number == one["stage"]
        mark = _MARKS[one["state"]] if is_here else "✓" if number < one["stage"] else " "
        shown.append(f"[{mark}] {stage['name']}")
    return "  ".join(shown)


def _automation(one: Record) -> str:
    if one["state"] in ("aborted", "done"):
        return "it is over"
    if one["by_person"] and not one["guard"]:
        return "a person promoted it here, so nothing is undone by itself (no --guard)"
    return "it is aborted by itself if it is clearly worse"


def _exempt(one: Record) -> Iterator[str]:
    if one["state"] in ("aborted", "done"):
        return
    for tenants, version in ((one["blast"]["out"], one["incumbent"]), (one["blast"]["first"], one["candidate"])):
        if tenants:
            yield f"{', '.join(tenants)}: {version} at every share, until it is over"


def _next(one: Record) -> Iterator[str]:
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


def _over_blast(one: Record) -> Iterator[str]:
    ratio, most = (one.get("judgement") or {}).get("tokens_ratio"), one["blast"].get("tokens_ratio", 1.0)
    if ratio is not None and ratio > most:
        yield f"it has {ratio:.0%} of the tokens, and {most:.0%} may: resumed, it is held again until that is less"
