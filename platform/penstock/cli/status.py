"""`penstock status`, `config`, `contract` and `version`."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import typer

from penstock.apps import sharing
from penstock.cli import screen
from penstock.cli.terminal import AsJson, err, out, tell_json
from penstock.clients.operator import Operator
from penstock.domain.clock import SystemClock
from penstock.domain.command_error import CommandError
from penstock.local.connections import controller_address, operator, operator_certificate
from penstock.settings import Settings, load, without_password
from penstock.views import status as views
from penstock.views import versions
from penstock.views.elements import Record, line


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    workers: list[Record]
    models: list[Record]
    controller: Record


def status(*, as_json: AsJson = False) -> None:
    """Show what runs and what is not well: processes, workers, open circuits, alerts, versions, the leader.

    For example: `penstock status`, or `watch -n1 penstock status` while workers start.
    """
    from penstock.cli import present

    settings = load()
    now, processes = present.now(settings), present.processes(settings)
    first = {"present": asdict(now), "processes": list(map(asdict, processes))}
    if not as_json:
        screen.show(views.present(now), present.listed(settings, processes))
    try:
        asked = _ask(operator(settings, timeout_s=present.ANSWER_S))
    except CommandError as error:
        workers = present.workers(settings)
        if as_json:
            tell_json({**first, "workers": list(map(asdict, workers)), "error": str(error)})
        else:
            screen.show(views.workers_by_pages(workers))
        raise
    if as_json:
        tell_json({**first, **asdict(asked)})
    else:
        screen.show(views.workers(asked.workers, settings.lease_s), versions.running(asked.models))
        away = len(now.stores_away)
        screen.show(map(line, (*_controller(settings, asked, away), *present.pages(settings))))


def _ask(api: Operator) -> Asked:
    return Asked(
        workers=api.get("/workers")["workers"], models=api.get("/models")["models"], controller=api.get("/status")
    )


def _controller(settings: Settings, asked: Asked, away: int) -> Iterator[str]:
    found, address = asked.controller, controller_address(settings)
    own = operator_certificate(settings, address)
    yield from views.controller(found, address)
    yield from views.limits(_limits(settings, is_shared=found["limits_shared"], away=away))
    ends_at = own.now().ends_at if own else None
    yield from views.certificates(found.get("certificate_ends_at"), ends_at, SystemClock().now())
    if work := found.get("batch_work"):  # a controller before this release has none
        yield from views.batch_work(work)
    yield from versions.pool(found.get("pool"))
    yield from versions.pins(found.get("pool"), asked.models)
    yield from (f"held: {one}" for one in found.get("held", ()))


def config() -> None:
    """Print the settings that a start here would use, as YAML, which may be saved as `settings.yaml` in the home.

    A platform that runs has those of its start; a note on standard error says if the file has changed since.
    """
    from penstock.local import state
    from penstock.settings import as_yaml

    settings = load()
    out.print(as_yaml(settings), end="", markup=False, highlight=False, soft_wrap=True)
    if note := state.unread_settings(settings.paths.run, settings.paths.settings_file):
        err.print(note, highlight=False, soft_wrap=True)


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


def _limits(settings: Settings, *, is_shared: bool, away: int = 0) -> views.LimitStore:
    return views.LimitStore(
        is_shared=is_shared,
        is_remote=bool(settings.url),
        name=without_password(settings.limits_url),
        gateways=settings.gateways,
        away=away,
        doubt=sharing.doubts_on_answers(settings),
    )
