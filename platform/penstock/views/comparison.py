"""Versions that share an alias: the verdict and findings of each candidate beside the incumbent."""

from collections.abc import Iterator

from penstock.views.elements import Record, Shown, Style, line, of, prose, table

_SAID = {
    "promote": "proven no worse than the incumbent, on every count",
    "wait": "too little is known to go on, and nothing speaks against it",
    "hold": "worse than is tolerated: look at it before it gets more",
    "abort": "clearly worse: take its share away",
}
_LEGEND = """
strength: the evidence for the verdict; 1.00 decides. requests: the candidate's since this stage began.
mean rank: 0.50 is as fast, or as dear, as the incumbent's requests of about the same prompt and load, 1.00 is worse
than all of them. Times may be a tenth more, so equals are below 0.50. Prices are as if nothing were cached; a copy's is
held against its original's: 0.50 within 2 %, 0.74 up to a quarter dearer.
without any to compare with: no request of the incumbent was like it. The incumbent's figures are those of the last five
minutes, or of less if the controller began later: it reads two minutes back.
bad, refused: once for a user in ten seconds; bad are also those that the incumbent had while the candidate was dead.
more needed: requests still missing before there may be a proof, however strong the evidence is.
""".strip().splitlines()
"""Explanation of the figures, under a judge's findings."""


def shown(found: Record) -> Iterator[Shown]:
    if not found["pairs"]:
        yield prose(
            f"{found['alias']}: one version has all of it, or nothing was told yet: there is nothing to compare."
        )
    for pair in found["pairs"]:
        yield from judged(pair["incumbent"], pair["judgement"])


def judged(incumbent: str, judgement: Record) -> Iterator[Shown]:
    yield line((f"{judgement['version']} beside {incumbent}", Style.STRONG))
    verdict = f"{judgement['verdict']}: {_SAID[judgement['verdict']]}"
    for said in (verdict, _tokens(judgement), judgement["unfit"]):
        if said:
            yield line(f"  {said}")
    strength = of(lambda found: "-" if found is None else f"{found:.2f}", "strength")
    columns = {"metric": "metric", "verdict": "verdict", "strength": strength, "requests": "sample", "seen": _seen}
    yield table("", judgement["findings"], columns)
    yield from (line((f"  {text}", Style.MUTED)) for text in (_LEGEND if judgement["findings"] else ()))


def brief(judgement: Record) -> str:
    verdict = judgement["verdict"]
    wanted = [one for one in judgement["findings"] if one["verdict"] == verdict] or judgement["findings"]
    if verdict in ("wait", "promote"):  # what is farthest from its proof
        wanted = sorted(wanted, key=lambda one: one["strength"] or 0.0)
    return f"{verdict}: {wanted[0]['says']}" if wanted else f"{verdict}: nothing was told yet"


def _tokens(judgement: Record) -> str:
    ratio = judgement.get("tokens_ratio")
    return "" if ratio is None else f"it had {ratio:.1%} of both versions' tokens of the last five minutes"


def _seen(finding: Record) -> str:
    says = finding["says"].removeprefix(f"{finding['metric']}:").strip()
    says = says.replace("0 of 0", "none yet", 1) if says.startswith("0 of 0") else says
    lacks = finding.get("lacks", 0)
    return f"{says}; {lacks} more needed" if lacks else says
