"""The command line: each command asks a running platform over its APIs, or runs a process.

A command imports what it needs when it runs: `penstock --help` does not wait for a database driver, and
`penstock ask` for no other command.
"""

import gc
import resource
import sys
from functools import cache
from importlib import import_module
from typing import Annotated

import typer

from penstock.cli import terminal

COMMANDS = {
    **{name: f"processes.{name}" for name in ("up", "down", "restart")},
    "ask": "ask.ask",
    "embed": "classic.embed",
    "classify": "classic.classify",
    "status": "status.status",
    "logs": "logs.logs",
    "diagnose": "diagnose.diagnose",
    "models": "models.app",
    "aliases": "aliases.app",
    "rollout": "rollouts.app",
    "scale": "scale.app",
    "jobs": "jobs.app",
    "batches": "batches.app",
    "batch": "batches.runs",
    "files": "files.app",
    "keys": "keys.app",
    "tenants": "tenants.app",
    "orgs": "tenants.orgs",
    "safety": "safety.app",
    "budgets": "budgets.app",
    "usage": "usage.app",
    "webhooks": "webhooks.app",
    "privacy": "privacy.app",
    "plan": "plan.app",
    "bench": "bench.app",
    "slo": "promises.app",
    "import": "imports.app",
    "audit": "audit.app",
    "explain": "explain.explain",
    "spool": "spool.app",
    "config": "status.config",
    "init": "processes.init",
    "gateway": "processes.gateway",
    "jobs-runner": "processes.jobs_runner",
    "controller": "processes.controller",
    "worker": "processes.worker",
    "worker-key": "processes.worker_key",
    "contract": "status.contract",
    "version": "status.version",
}
"""The module and the name in it of each command, or of each group of commands."""
GARBAGE_AT = 10_000
"""New objects after which the garbage collector runs: with Python's 700 that is every third request, and a start is a
tenth longer.
"""
_HELP = """A multi-tenant GPU inference platform.

**penstock up** starts everything here and asks a first question; the other commands work beside it.

What tenants' admins and auditors may see, they see with `--key` and `--url` from any machine.

Settings come from `PENSTOCK_*` variables and from `settings.yaml` in `PENSTOCK_HOME` (default `.penstock`).
"""


@cache
def application(names: tuple[str, ...] = tuple(COMMANDS)) -> typer.Typer:
    made = typer.Typer(
        name="penstock",
        cls=terminal.Commands,
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        help=_HELP,
    )
    made.callback()(_common)
    for name in names:
        module, _, attribute = COMMANDS[name].partition(".")
        command = getattr(import_module(f"penstock.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            made.add_typer(command, name=name)
        else:
            made.command(name)(command)
    return made


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
    gc.set_threshold(GARBAGE_AT)
    terminal.prepare()
    named = sys.argv[1:2]
    sys.exit(terminal.run(application(tuple(named)) if COMMANDS.keys() & named else application()))
