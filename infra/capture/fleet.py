"""Captures every stack of an environment in the order of deployment: consumers see what producers really export."""

from collections.abc import Callable, Mapping
from functools import partial

from infra.capture.others import Cloud, fitting
from infra.capture.run import ORGANIZATION, run
from infra.config.kinds import StackKind
from infra.config.model import Fleet
from infra.graph.captured import Capture
from infra.graph.values import Json
from infra.kube.observability import SAMPLES
from infra.stacks import global_, mesh, platform, region, serving
from infra.stacks.exports import project_name

Program = Callable[[Fleet, str], None]
REGIONAL: tuple[tuple[StackKind, Program], ...] = (
    (StackKind.REGION, region.program),
    (StackKind.PLATFORM, partial(platform.program, sources=SAMPLES)),
    (StackKind.SERVING, serving.program),
)


def stack_name(fleet: Fleet, region_name: str) -> str:
    """The Pulumi stack: the environment, and the region if there is one."""
    return f"{fleet.environment.name}.{region_name}" if region_name else fleet.environment.name


def capture_fleet(fleet: Fleet) -> tuple[Capture, ...]:
    """Every stack of the fleet, in order; what others made fits the config. Raises `CaptureFailedError`."""
    exports: dict[str, Mapping[str, Json]] = {}
    captured = partial(_capture, fleet)
    captures = [captured(StackKind.GLOBAL, "", partial(global_.program, fleet), exports)]
    for name in fleet.environment.regions:
        for kind, program in REGIONAL:
            captures.append(captured(kind, name, partial(program, fleet, name), exports))
    captures.append(captured(StackKind.MESH, "", partial(mesh.program, fleet), exports))
    return tuple(captures)


def _capture(
    fleet: Fleet,
    kind: StackKind,
    region_name: str,
    program: Callable[[], None],
    exports: dict[str, Mapping[str, Json]],
) -> Capture:
    stack, project = stack_name(fleet, region_name), project_name(kind)
    account = fleet.environment.account_id
    cloud: Cloud = fitting(fleet, fleet.region(region_name)) if region_name else {}
    graph = run(program, project=project, stack=stack, account=account, producers=exports, cloud=cloud)
    exports[f"{ORGANIZATION}/{project}/{stack}"] = graph.exports
    return Capture(kind=kind, region=region_name, graph=graph)
