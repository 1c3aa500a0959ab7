"""How versions that share an alias do, on the screen."""

from typing import Any

from penstock.apps.cli import tables
from penstock.apps.cli.terminal import out

_SAID = {
    "promote": "proven no worse than the incumbent, on every count",
    "wait": "too little is known to go on, and nothing speaks against it",
    "hold": "worse than is tolerated: look at it before it gets more",
    "abort": "clearly worse: take its share away",
}


def show(found: dict[str, Any]) -> None:
    """Print each candidate's verdict and findings."""
    if not found["pairs"]:
        out.print(f"{found['alias']}: one version has all of it, or nothing was told yet: there is nothing to compare.")
    for pair in found["pairs"]:
        judgement = pair["judgement"]
        out.print(f"{judgement['version']} beside {pair['incumbent']}", style="bold", highlight=False, markup=False)
        for said in (f"{judgement['verdict']}: {_SAID[judgement['verdict']]}", judgement["unfit"]):
            if said:
                out.print(f"  {said}", highlight=False, markup=False, soft_wrap=True)
        rows = [
            (
                one["metric"],
                one["verdict"],
                "-" if one["strength"] is None else f"{one['strength']:.2f}",
                one["sample"],
                one["says"].removeprefix(f"{one['metric']}:").strip(),
            )
            for one in judgement["findings"]
        ]
        tables.show("", ("metric", "verdict", "strength", "requests", "seen"), rows)
