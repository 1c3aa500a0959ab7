"""The command line: each command asks a running platform over its APIs, or runs a process.

Commands import packages when they run: `penstock --help` and `penstock ask` should not wait for a database driver.
"""

import resource
import sys
from typing import Annotated

import typer

from penstock.cli import (
    aliases,
    ask,
    audit,
    batches,
    bench,
    budgets,
    classic,
    diagnose,
    explain,
    files,
    imports,
    jobs,
    keys,
    logs,
    models,
    plan,
    privacy,
    processes,
    promises,
    rollouts,
    safety,
    scale,
    spool,
    status,
    tenants,
    terminal,
    usage,
    webhooks,
)

app = typer.Typer(
    name="penstock",
    cls=terminal.Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="""A multi-tenant GPU inference platform.

**penstock up** starts everything here and asks a first question; the other commands work beside it.

What tenants' admins and auditors may see, they see with `--key` and `--url` from any machine.

Settings come from `PENSTOCK_*` variables and from `settings.yaml` in `PENSTOCK_HOME` (default `.penstock`).
""",
)
app.command()(processes.up)
app.command()(processes.down)
app.command()(processes.restart)
app.command()(ask.ask)
app.command()(classic.embed)
app.command()(classic.classify)
app.command()(status.status)
app.command()(logs.logs)
app.command()(diagnose.diagnose)
app.add_typer(models.app, name="models")
app.add_typer(aliases.app, name="aliases")
app.add_typer(rollouts.app, name="rollout")
app.add_typer(scale.app, name="scale")
app.add_typer(jobs.app, name="jobs")
app.add_typer(batches.app, name="batches")
app.add_typer(batches.runs, name="batch")
app.add_typer(files.app, name="files")
app.add_typer(keys.app, name="keys")
app.add_typer(tenants.app, name="tenants")
app.add_typer(tenants.orgs, name="orgs")
app.add_typer(safety.app, name="safety")
app.add_typer(budgets.app, name="budgets")
app.add_typer(usage.app, name="usage")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(privacy.app, name="privacy")
app.add_typer(plan.app, name="plan")
app.add_typer(bench.app, name="bench")
app.add_typer(promises.app, name="slo")
app.add_typer(imports.app, name="import")
app.add_typer(audit.app, name="audit")
app.command()(explain.explain)
app.add_typer(spool.app, name="spool")
app.command()(status.config)
app.command()(processes.init)
app.command()(processes.gateway)
app.command()(processes.jobs_runner)
app.command()(processes.controller)
app.command()(processes.worker)
app.command()(processes.worker_key)
app.command()(status.contract)
app.command()(status.version)


@app.callback()
def _common(
    home: Annotated[
        str, typer.Option(envvar="PENSTOCK_HOME", help="The platform's data folder.", show_default=".penstock")
    ] = "",
) -> None:
    from penstock.settings import choose_home

    if home:
        choose_home(home)


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # children inherit it: no prompt of a crashed process on a disk
    terminal.prepare()
    sys.exit(terminal.run(app))
