"""Commands that run a process of the platform, or start, stop and control processes."""

import os
import signal
from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.terminal import out

Parent = Annotated[int, typer.Option(hidden=True, help="End with this process.")]


class Restartable(StrEnum):
    """Processes that restart without breaking a stream."""

    GATEWAY = "gateway"
    WORKERS = "workers"
    RUNNERS = "runners"


_SIGNALS = {
    Restartable.GATEWAY: signal.SIGHUP,
    Restartable.WORKERS: signal.SIGUSR1,
    Restartable.RUNNERS: signal.SIGUSR2,
}


def up(
    question: Annotated[bool, typer.Option(help="Ask a first question when the platform is ready.")] = True,
    tls: Annotated[
        bool,
        typer.Option("--tls", help="Use mutual TLS between its processes, with a certificate authority of this home."),
    ] = False,
    observe: Annotated[
        bool, typer.Option("--observe", help="Also run a Prometheus and an Alertmanager that read all its processes.")
    ] = False,
) -> None:
    """Start the whole platform here and keep it running until Ctrl-C, which drains.

    For example:

    * `penstock up`

    * `PENSTOCK_HOME=/tmp/second PENSTOCK_PORT=8081 penstock up` - another one beside it

    * `PENSTOCK_MODELS=smollm2 PENSTOCK_WORKERS=2 penstock up` - two workers of one model

    * `penstock up --tls` - each process shows the others its certificate

    * `penstock up --observe` - with metrics, rules and alerts, kept in the same folder
    """
    from penstock.local.run import run
    from penstock.settings import load
    from penstock.settings.told import Tls

    _begin()
    asked = {**({"tls": Tls.ON} if tls else {}), **({"observe": True} if observe else {})}
    code = run(load().model_copy(update=asked), ask=question)
    raise typer.Exit(code)


def down() -> None:
    """Stop the platform of this home; it drains first, as after Ctrl-C."""
    from penstock.local.down import stop
    from penstock.settings import load

    out.print(stop(load()))


def restart(
    what: Annotated[Restartable, typer.Argument(help="The gateways, workers or jobs runners, one after another.")],
) -> None:
    """Replace running processes one by one; no request is refused and no stream breaks.

    They keep the settings that `penstock up` has read: changed ones need `penstock down` and `penstock up`.

    For example:

    * `penstock restart gateway`

    * `penstock restart workers`

    * `penstock restart runners` - running jobs end, or go back to their queue
    """
    from penstock.domain.command_error import CommandError
    from penstock.local import state
    from penstock.settings import load
    from penstock.supervision import lock

    settings = load()
    pid = lock.holder(settings.paths.run)
    if not pid:
        raise CommandError(f"No platform runs in {settings.paths.root}.", do="Start it with `penstock up`.")
    os.kill(pid, _SIGNALS[what])
    out.print(f"{what}: the rolling restart has begun; `penstock status` shows it.")
    if note := state.unread_settings(settings.paths.run, settings.paths.settings_file):
        out.print(note, highlight=False, soft_wrap=True)


def gateway(
    fd: Annotated[
        int, typer.Option(help="File descriptor of an inherited listening socket; -1 opens one.", show_default="-1")
    ] = -1,
    parent: Parent = 0,
) -> None:
    """Run one gateway in the foreground (`penstock up` does this for you)."""
    from penstock.apps.gateway.process import main
    from penstock.settings import load

    _begin(parent)
    main(load(), fd if fd >= 0 else None)


def jobs_runner(parent: Parent = 0) -> None:
    """Run one jobs runner in the foreground (`penstock up` does this for you)."""
    from penstock.apps.runner import main
    from penstock.settings import load

    _begin(parent)
    main(load())


def controller(parent: Parent = 0) -> None:
    """Run the controller in the foreground (`penstock up` does this for you)."""
    from penstock.apps.controller import main
    from penstock.settings import load

    _begin(parent)
    main(load(), is_supervised=bool(parent))


def init() -> None:
    """Prepare a platform's database, and write the operators' first key to its file; may run again at any time.

    For example: `PENSTOCK_ADMIN_KEY_FILE=/run/out/admin.key penstock init`
    """
    from penstock.apps.init import main
    from penstock.domain.clock import SystemClock
    from penstock.settings import load

    _begin()
    out.print(str(main(load(), SystemClock())), highlight=False)


def worker(
    version: Annotated[str, typer.Argument(help="The version to serve, as name@digest.")],
    worker_id: Annotated[str, typer.Option("--id", help="This worker's name; default: a random one.")] = "",
) -> None:
    """Run one worker of a version in the foreground (the controller does this for you).

    Example: `penstock worker smollm2-135m-instruct@0123456789ab`
    """
    import secrets

    from penstock.apps.keys import provide_worker_key
    from penstock.apps.worker import main
    from penstock.domain.ids import VersionId, WorkerId
    from penstock.settings import load

    _begin()
    settings, name = load(), WorkerId(worker_id or f"{version.partition('@')[0]}-{secrets.token_hex(4)}")
    if not settings.worker_key_file and not settings.paths.worker_key(name).exists():
        provide_worker_key(settings, name, VersionId(version))  # started by hand, beside the platform's own key
    main(settings, version, name)


def worker_key(
    name: Annotated[str, typer.Argument(help="The worker's name, as in `penstock worker --id NAME`.")],
    version: Annotated[str, typer.Argument(help="The version that it serves, as name@digest.")],
) -> None:
    """Print the secrets of one worker, for PENSTOCK_WORKER_KEY_FILE on its machine.

    Example: `penstock worker-key gpu-17 smollm2-135m-instruct@0123456789ab > /run/secrets/worker.key`
    """
    from penstock.apps.keys import worker_key as key_of
    from penstock.domain.ids import VersionId, WorkerId
    from penstock.settings import load

    typer.echo(key_of(load(), WorkerId(name), VersionId(version)))


def _begin(parent: int = 0) -> None:
    """Make this process's files private, and end it when its supervisor ends."""
    from penstock.supervision.files import keep_private
    from penstock.supervision.tied import terminate_with

    keep_private()

    if parent:
        terminate_with(parent)
