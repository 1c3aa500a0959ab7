"""`penstock status`, `config`, `contract` and `version`."""

import typer

from penstock.apps import sharing
from penstock.apps.settings import Settings, load, without_password
from penstock.cli import screen
from penstock.cli.terminal import explained, out
from penstock.domain.clock import SystemClock
from penstock.domain.command_error import CommandError
from penstock.local.connections import controller_address, operator, operator_certificate
from penstock.views import status as views
from penstock.views import versions
from penstock.views.elements import Listing, line, listing


def status() -> None:
    """Show what runs: processes, workers with their phases and load, versions, aliases, the routing table.

    For example: `penstock status`, or `watch -n1 penstock status` while workers start.
    """
    from penstock.cli import present

    with explained():
        settings = load()
        screen.show(present.told(settings), _processes(settings))
        api = operator(settings)
        try:
            workers = api.get("/workers")["workers"]
        except CommandError:
            screen.show(present.workers(settings))
            raise
        screen.show(views.workers(workers, settings.lease_s))
        models = api.get("/models")["models"]
        screen.show(versions.running(models))
        found = api.get("/status")
        address = controller_address(settings)
        own = operator_certificate(settings, address)
        ends_at = own.now().ends_at if own else None
        told = (
            *views.controller(found, address),
            *views.limits(_limits(settings, is_shared=found["limits_shared"])),
            *views.certificates(found.get("certificate_ends_at"), ends_at, SystemClock().now()),
            *versions.pool(found.get("pool")),
            *versions.pins(found.get("pool"), models),
            *present.pages(settings),
            *(f"held: {one}" for one in found.get("held", ())),
        )
        screen.show(map(line, told))


def config() -> None:
    """Print all settings as YAML, which may be saved as `settings.yaml` in the home."""
    from penstock.apps.settings import as_yaml

    with explained():
        out.print(as_yaml(load()), end="", markup=False, highlight=False, soft_wrap=True)


def version() -> None:
    """Print the version of this program."""
    from penstock import __version__

    out.print(f"penstock {__version__}", highlight=False)


def contract() -> None:
    """Print each process's needs: command, settings, ports, probes, folders, secrets, calls; as JSON.

    For example: `penstock contract > infra/contract.json`
    """
    from penstock.contract.written import text

    typer.echo(text(), nl=False)


def _limits(settings: Settings, *, is_shared: bool) -> views.LimitStore:
    return views.LimitStore(
        is_shared=is_shared,
        is_remote=bool(settings.url),
        name=without_password(settings.limits_url),
        gateways=settings.gateways,
        doubt=sharing.doubts_on_answers(settings),
    )


def _processes(settings: Settings) -> Listing:
    from penstock.local import state

    rows = [
        (one.name, one.pid, one.memory, one.cpu, one.metrics, one.restarts)
        for one in state.processes(settings.paths.run)
    ]
    columns = ("process", "pid", "MB", "CPU s", "metrics", "restarts")
    return listing(f"Processes of {settings.paths.root}", columns, rows)
