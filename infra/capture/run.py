"""Runs one program in a context of its own and gives its graph. Programs see config, never the environment."""

import asyncio
import contextlib
import contextvars
import io
from collections.abc import Callable, Mapping
from functools import partial

from pulumi.runtime import config as pulumi_config
from pulumi.runtime import run_in_stack, settings
from pulumi.runtime.mocks import MockEngine, MockSettings
from pulumi.runtime.sync_await import _sync_await

from infra.capture.monitor import Monitor
from infra.graph.nodes import Graph
from infra.graph.values import Json

ORGANIZATION = "organization"
SECRET_CONFIG = {
    "penstock:databasePassword": "placeholder-database-password",
    "penstock:limitsToken": "placeholder-limits-token",
    "penstock:answersToken": "placeholder-answers-token",
}
"""The secrets that a person sets once per stack with `pulumi config set --secret`."""


class CaptureFailedError(RuntimeError):
    """The program raised; the message is its own."""


def run(
    program: Callable[[], None],
    *,
    project: str,
    stack: str,
    account: str,
    producers: Mapping[str, Mapping[str, Json]],
    cloud: Mapping[str, Mapping[str, Json] | None] | None = None,
) -> Graph:
    """The graph that `program` registers. Raises `CaptureFailedError` with the program's own message."""
    monitor = Monitor(stack=stack, project=project, account=account, producers=producers, cloud=cloud or {})
    contextvars.copy_context().run(_run, program, monitor, project, stack)
    nodes = tuple(monitor.nodes[urn] for urn in sorted(monitor.nodes))
    return Graph(project=project, stack=stack, nodes=nodes, exports=monitor.exports)


async def _settled(program: Callable[[], None]) -> None:
    """Run the program and wait for all its outputs at once; what fails is left to the SDK to raise.

    The SDK waits for one output after the other, with a callback on each that is left: a third of a capture's CPU.
    """
    program()
    outputs = settings.SETTINGS.outputs
    while pending := set(outputs):
        done, _ = await asyncio.wait(pending, return_when=asyncio.FIRST_EXCEPTION)
        outputs.difference_update(done)
        if failed := [one for one in done if one.exception()]:
            outputs.update(failed)
            return


def _run(program: Callable[[], None], monitor: Monitor, project: str, stack: str) -> None:
    features = set(monitor.GetDeploymentInfo(None).supportedFeatures)  # type: ignore[no-untyped-call]
    settings.configure(
        MockSettings(  # type: ignore[no-untyped-call]
            monitor=monitor,
            monitor_features=features,
            engine=MockEngine(None),
            project=project,
            stack=stack,
            dry_run=False,
            organization=ORGANIZATION,
            callbacks=None,
        )
    )
    settings.set_root_resource(None)  # type: ignore[arg-type]
    settings.SETTINGS.outputs.clear()  # a program that failed leaves some, of a loop that is closed
    pulumi_config.set_all_config(SECRET_CONFIG, list(SECRET_CONFIG))
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    noise = io.StringIO()
    try:
        with contextlib.redirect_stderr(noise):
            _sync_await(run_in_stack(partial(_settled, program)))
    except Exception as error:
        raise CaptureFailedError(f"{project}/{stack}: {error}") from error
    finally:
        loop.close()
        asyncio.set_event_loop(None)
