"""`penstock bench …`: measures a running engine, for plans and predictions that are its own."""

import math
from dataclasses import asdict
from typing import Annotated, Any

import typer

from penstock.cli import screen
from penstock.cli.terminal import AsJson, err
from penstock.domain.clock import SystemClock
from penstock.domain.command_error import CommandError
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import VersionId, WorkerId
from penstock.local.connections import operator
from penstock.settings import load
from penstock.views import curves as view

app = typer.Typer(no_args_is_help=True, help="Measurements of running engines.")


@app.callback()
def _bench() -> None: ...


@app.command("engine")
def engine(
    version: Annotated[str, typer.Argument(help="A version with a ready worker, as name@digest.")],
    *,
    worker: Annotated[str, typer.Option(help="The worker to measure; default: the first that is ready.")] = "",
    minutes: Annotated[float, typer.Option(min=0.1, max=120.0, help="The longest time to measure.")] = 5.0,
    as_json: AsJson = False,
) -> None:
    """Measure the steps of a running engine, fit its curve, and store it beside the version.

    The worker computes made-up prompts of many lengths, alone and in batches, for some minutes, beside which tenants'
    requests wait: choose a quiet hour. It needs the platform's key, so run it on the platform's own machine.

    For example: penstock bench engine smollm2-135m-instruct@0123456789ab
    """
    import asyncio

    from penstock.apps.bench import measuring
    from penstock.worker.agent.measuring import BUSY

    settings = load()
    api = operator(settings)
    note = lambda text: err.print(text, style="dim", highlight=False, markup=False)  # noqa: E731
    size = api.get(f"/models/{version}")["manifest"]["engine"]
    one = _ready(api.get("/workers")["workers"], version, worker)
    if _may_go(api.get("/scale")["versions"], version, SystemClock().now() + minutes * 60.0):
        keep = f'penstock scale set {version} 1 --for {math.ceil(minutes) + 10}m --reason "to be measured"'
        raise CommandError("The autoscaler may end or park this worker meanwhile.", do=f"Keep it first: {keep}")
    measures = measuring(settings, VersionId(version), WorkerId(one["id"]), one["url"], note)
    measured = asyncio.run(
        measures.of_engine(
            max_seqs=size["max_num_seqs"],
            max_model_len=size["max_model_len"],
            block_size=size["block_size"],
            most_s=minutes * 60.0,
        )
    )
    found = {
        "version": version,
        "worker": one["id"],
        **asdict(measured),
        "seconds": round(measured.seconds, 1),
        "is_busy": measured.curve.disturbed > BUSY,
    }
    api.put(f"/models/{version}/curves", {"curve": found["curve"]})
    screen.tell(found, lambda: view.measured(version, found), as_json=as_json)


def _ready(workers: list[dict[str, Any]], version: str, name: str) -> dict[str, Any]:
    for one in workers:
        if one["version"] == version and one["state"] == WorkerState.READY and name in ("", one["id"]):
            return one
    which = f"worker {name} of {version}" if name else f"worker of {version}"
    raise CommandError(f"No {which} is ready.", do=f"penstock models scale {version} 1, then see penstock status.")


def _may_go(scaled: list[dict[str, Any]], version: str, until: float) -> bool:
    """A measured worker is idle to the autoscaler: no tenant's requests run on it."""
    for one in (one for one in scaled if one["record"]["version"] == version):
        override = one["record"]["override"]
        return one["target"]["workers"] > one["target"]["least"] and (override is None or override["until"] < until)
    return False
