"""`penstock jobs …`: requests that are answered later; for operators, dead letters and the pause of all batch work."""

import json
import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import typer

from penstock.cli import arguments, screen
from penstock.cli.caller import as_caller
from penstock.cli.deferred import Gateway, Key, Most, caller, query
from penstock.cli.terminal import AsJson, out
from penstock.domain.command_error import CommandError
from penstock.local.connections import operator
from penstock.settings import load
from penstock.views import deferred as views
from penstock.views.elements import line

app = typer.Typer(no_args_is_help=True, help="Jobs: requests that are answered later, behind all other traffic.")
Id = Annotated[str, typer.Argument(help="A job's id, as `job_…`.")]
Model = Annotated[str, typer.Option(help="Only jobs for this model, as it was asked for.", show_default="all")]
Tenant = Annotated[str, typer.Option(help="Only jobs of this tenant.", show_default="all")]
Error = Annotated[str, typer.Option(help="Only jobs with this last error.", show_default="all")]
WAIT_S = 0.5
"""Seconds between looks at a job that is waited for."""


@app.command("submit")
def submit_job(  # noqa: PLR0913  an option each
    request: Annotated[Path, typer.Argument(help="The request's body as JSON; - reads it from the standard input.")],
    api: Annotated[str, typer.Option(help="The API that answers it.")] = "/v1/chat/completions",
    deadline: Annotated[
        str, typer.Option(help="Give up after this time, as 90s, 5m or 2h.", show_default="the plan's")
    ] = "",
    not_before: Annotated[str, typer.Option(help="Start no earlier, as 2026-11-01T22:00 (UTC).")] = "",
    webhook: Annotated[str, typer.Option(help="An endpoint's id, as `we_…`: it hears of this job's end.")] = "",
    *,
    metadata: Annotated[list[str] | None, typer.Option(help="NAME=VALUE; may be repeated.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end, and print the answer.")] = False,
    key: Key = "",
    gateway: Gateway = "",
    as_json: AsJson = False,
) -> None:
    """Submit a request as a job.

    For example:

    * `penstock jobs submit question.json --wait`

    * `penstock jobs submit texts.json --api /v1/embeddings --not-before 2026-11-01T22:00 --deadline 12h`
    """
    wish: dict[str, object] = {"api": api, "request": _json(request)}
    if deadline:
        wish["deadline_s"] = arguments.length(deadline)
    if not_before:
        wish["not_before"] = arguments.seconds(not_before)
    if webhook:
        wish["webhook"] = webhook
    if metadata:
        wish["metadata"] = dict(_pair(one) for one in metadata)
    with caller(key, gateway) as asks:
        found = asks.post("/v1/jobs", wish)
        if wait:
            from penstock.clients.deferred import JOB_ENDED

            found = asks.until_ended(f"/v1/jobs/{found['id']}", "state", JOB_ENDED, lambda _: WAIT_S)
    if wait and not as_json and found.get("response"):
        out.print(
            json.dumps(found["response"]["body"], ensure_ascii=False), highlight=False, markup=False, soft_wrap=True
        )
        return
    screen.tell(found, lambda: views.jobs([found]), as_json=as_json)


@app.command("list")
def list_jobs(
    state: Annotated[str, typer.Option(help="queued, running, succeeded, failed or cancelled.")] = "",
    model: Model = "",
    most: Most = 20,
    *,
    key: Key = "",
    gateway: Gateway = "",
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first."""
    with caller(key, gateway) as asks:
        found = list(asks.each("/v1/jobs", query(state=state, model=model), most))
    screen.tell({"jobs": found}, lambda: views.jobs(found), as_json=as_json)


@app.command("show")
def show_job(
    job: Id,
    *,
    key: Key = "",
    gateway: Gateway = "",
    as_json: Annotated[bool, typer.Option("--json", help="The whole job as JSON, with its answer.")] = False,
) -> None:
    """Show a job's state, times and attempts."""
    with caller(key, gateway) as asks:
        found = asks.get(f"/v1/jobs/{job}")
    screen.tell(found, lambda: views.job(found), as_json=as_json)


@app.command("content")
def content(job: Id, *, key: Key = "", gateway: Gateway = "") -> None:
    """Print a job's answer as JSON."""
    with caller(key, gateway) as asks:
        found = asks.get(f"/v1/jobs/{job}")
    if found["response"] is None:
        raise CommandError(f"{job} has no answer: it is {found['state']}.", do=f"penstock jobs show {job}")
    sys.stdout.write(json.dumps(found["response"]["body"], ensure_ascii=False) + "\n")


@app.command("cancel")
def cancel_job(job: Id, *, key: Key = "", gateway: Gateway = "", as_json: AsJson = False) -> None:
    """Cancel a job; a running one stops within a second."""
    with caller(key, gateway) as asks:
        found = asks.post(f"/v1/jobs/{job}/cancel")
    screen.tell(found, lambda: views.jobs([found]), as_json=as_json)


@app.command("replay")
def replay_job(job: Id, *, key: Key = "", gateway: Gateway = "", as_json: AsJson = False) -> None:
    """Queue a failed or cancelled job again, with all of its attempts and its whole time."""
    with caller(key, gateway) as asks:
        found = asks.post(f"/v1/jobs/{job}/replay")
    screen.tell(found, lambda: views.jobs([found]), as_json=as_json)


@app.command("delete")
def delete_job(job: Id, *, key: Key = "", gateway: Gateway = "") -> None:
    """Delete an ended job with its request and answer."""
    with caller(key, gateway) as asks:
        asks.delete(f"/v1/jobs/{job}")
    out.print(f"{job} is deleted.", highlight=False)


@app.command("dead")
@as_caller
def list_dead(
    tenant: Tenant = "", model: Model = "", error: Error = "", most: Most = 50, *, as_json: AsJson = False
) -> None:
    """List jobs that failed at each attempt, of all tenants. For operators."""
    asked = urlencode({**query(tenant=tenant, model=model, error=error), "limit": most})
    found = operator(load()).get(f"/batch-work/dead?{asked}")
    screen.tell(found, lambda: views.dead(found["jobs"]), as_json=as_json)


@app.command("replay-dead")
@as_caller
def replay_dead(tenant: Tenant = "", model: Model = "", error: Error = "", *, as_json: AsJson = False) -> None:
    """Queue dead jobs again by filter, at most a thousand, with a row in the audit log. For operators.

    For example: `penstock jobs replay-dead --tenant shop --error engine_error`
    """
    found = operator(load()).post("/batch-work/dead/replay", query(tenant=tenant, model=model, error=error))
    screen.tell(found, lambda: line(f"{found['jobs']} jobs are queued again."), as_json=as_json)


@app.command("pause")
@as_caller
def pause_all() -> None:
    """Pause all jobs and batches: none starts until they are resumed. For operators."""
    operator(load()).put("/batch-work/pause", {})
    out.print("All jobs and batches are paused; their deadlines stay.")


@app.command("resume")
@as_caller
def resume_all() -> None:
    """Resume all jobs and batches. For operators."""
    operator(load()).delete("/batch-work/pause")
    out.print("Jobs and batches run again.")


def _json(path: Path) -> object:
    text = sys.stdin.read() if str(path) == "-" else path.read_text()
    try:
        return json.loads(text)
    except ValueError as error:
        raise CommandError(f"{path} is no JSON: {error}.", do="Give the body as the API takes it.") from error


def _pair(text: str) -> tuple[str, str]:
    name, is_there, value = text.partition("=")
    if not is_there:
        raise CommandError(f"{text[:40]!r} is no NAME=VALUE.", do="Write for example --metadata order=17.")
    return name, value
