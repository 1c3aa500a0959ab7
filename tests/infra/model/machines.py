"""Machines that scalers may bring, as the scheduler sees them: labels, taints, room, zones and devices of each kind."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import yaml
from botocore.session import Session

from infra.catalogue.instances import Instance, instances
from infra.components.labels import MIG_CONFIG, POOL, SCALER
from infra.config.pools import Pool
from infra.graph.nodes import Node
from infra.graph.values import Json, items, mapping, number, text
from tests.infra.model.reach import zone_of
from tests.infra.model.world import AbsentError, World

EFA, SLICE, WHOLE = "vpc.amazonaws.com/efa", "nvidia.com/mig-", "nvidia.com/gpu"
KEPT_CPU, KEPT_MEMORY_RATIO = 0.5, 0.9
"""What kubelet, the system and daemons leave of a node."""
CARDS = "networkInterfaces"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Machines that one group or NodePool may bring, as the scheduler sees the poorest of them."""

    node: Node
    labels: Mapping[str, str]
    taints: tuple[Json, ...]
    types: tuple[Instance, ...]
    zones: tuple[str, ...]
    most: float
    devices: Counter[str]

    @property
    def scaler(self) -> str:
        return self.labels.get(SCALER, "")

    @property
    def gpu(self) -> bool:
        return any(one.gpus for one in self.types)

    def takes(self, pod: Mapping[str, Json]) -> bool:
        """Whether the scheduler lets a pod onto such a node and every type has room for it."""
        wanted = {str(key): str(value) for key, value in mapping(pod, "nodeSelector").items()}
        repelled = [one for one in self.taints if not any(tolerates(each, one) for each in items(pod, "tolerations"))]
        return wanted.items() <= self.labels.items() and not repelled and self.holds(asked(pod))

    def holds(self, wanted: Mapping[str, float]) -> bool:
        return all(
            wanted.get("cpu", 0) <= one.vcpu - KEPT_CPU
            and wanted.get("memory", 0) <= one.memory_gib * KEPT_MEMORY_RATIO
            and all(count <= self.devices[key] for key, count in wanted.items() if "/" in key)
            for one in self.types
        )


def tolerates(toleration: Json, taint: Json) -> bool:
    """https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/."""
    held = {key: text(toleration, key) for key in ("key", "operator", "value", "effect")}
    exists = held["operator"] == "Exists"
    key = held["key"] == text(taint, "key") or (exists and not held["key"])
    effect = held["effect"] in ("", text(taint, "effect").title().replace("_", ""), text(taint, "effect"))
    return key and effect and (exists or held["value"] == text(taint, "value"))


def asked(pod: Mapping[str, Json]) -> Mapping[str, float]:
    """What a pod's containers ask for together, in cores, GiB and devices."""
    found = Counter[str]()
    for container in items(pod, "containers"):
        for key, value in mapping(container, "resources.requests").items():
            found[key] += quantity(str(value))  # type: ignore[assignment]
    return found


def quantity(value: str) -> float:
    for unit, size in (("Gi", 1), ("Mi", 2**-10), ("Ki", 2**-20), ("m", 1e-3)):
        if value.endswith(unit):
            return float(value.removesuffix(unit)) * size
    return float(value)


def known(names: list[Json]) -> tuple[Instance, ...]:
    """The catalogue's machines of these types. Raises `AbsentError` for one that EC2 or the catalogue lacks."""
    lacking = [name for name in names if name not in instances() or name not in ec2_types()]
    if lacking or not names:
        raise AbsentError(f"instance types {lacking or 'at all'}")
    return tuple(instances()[str(name)] for name in names)


@cache
def ec2_types() -> frozenset[str]:
    """Every instance type that the EC2 API knows."""
    return frozenset(Session().get_service_model("ec2").shape_for("InstanceType").enum)


def kinds(world: World) -> list[Kind]:
    """All kinds of machines of the region."""
    if "kinds" not in world.kept:
        groups = [_group(world, node) for node in world.of("NodeGroup")]
        world.kept["kinds"] = [*groups, *(_pool(world, node) for node in world.of("NodePool"))]
    found: list[Kind] = world.kept["kinds"]
    return found


def template(world: World, node: Node) -> Node:
    found = world.at(node, "launchTemplate")
    if len(found) != 1:
        raise AbsentError(f"a launch template of {node.name}")
    return found[0]


def _group(world: World, node: Node) -> Kind:
    held = template(world, node)
    names = items(node.inputs, "instanceTypes") or items(held.inputs, "instanceType")
    marks = {str(key): str(value) for key, value in mapping(node.inputs, "labels").items()}
    devices = offered(world, known(names), marks, [text(one, "interfaceType") for one in items(held.inputs, CARDS)])
    if not text(node.inputs, "amiType").endswith("_NVIDIA"):
        devices = Counter(devices, **{WHOLE: 0}) if not marks.get(MIG_CONFIG) else Counter()
    return Kind(
        node=node,
        labels=marks,
        taints=tuple(items(node.inputs, "taints")),
        types=known(names),
        zones=tuple(zone_of(one) for one in world.at(node, "subnetIds")),
        most=number(node.inputs, "scalingConfig.maxSize"),
        devices=devices,
    )


def _pool(world: World, node: Node) -> Kind:
    spec = mapping(node.inputs, "spec.template")
    wanted = {text(one, "key"): items(one, "values") for one in items(spec, "spec.requirements")}
    marks = {str(key): str(value) for key, value in mapping(spec, "metadata.labels").items()}
    types = known(wanted.get("node.kubernetes.io/instance-type", []))
    machine = world.the("EC2NodeClass", text(spec, "spec.nodeClassRef.name"))
    subnets = [world.maker(text(one, "id"), "Subnet") for one in items(machine.inputs, "spec.subnetSelectorTerms")]
    return Kind(
        node=node,
        labels=marks,
        taints=tuple(items(spec, "spec.taints")),
        types=types,
        zones=tuple(map(zone_of, subnets)),
        most=number(node.inputs, "spec.limits.nodes"),
        devices=offered(world, types, marks, []),
    )


def offered(world: World, types: tuple[Instance, ...], marks: Mapping[str, str], cards: list[str]) -> Counter[str]:
    """The extended resources of the poorest type: slices if the MIG manager finds the layout, else whole GPUs."""
    least = min(one.gpus for one in types)
    layout = marks.get(MIG_CONFIG)
    found = Counter({WHOLE: least, EFA: sum(card.startswith("efa") for card in cards)})
    if layout:
        slices = layouts(world).get(layout)
        if slices is None:
            raise AbsentError(f"a layout {layout}")
        found = Counter({f"{SLICE}{name}": least * count for name, count in slices.items()}) + Counter(
            {EFA: found[EFA]}
        )
    return found


def layouts(world: World) -> Mapping[str, Mapping[str, int]]:
    """What the MIG manager can cut, by the name of its layout."""
    held = mapping(world.the("ConfigMap", "penstock-mig-layouts").inputs, "data").get("config.yaml")
    told = mapping(yaml.safe_load(str(held)), "mig-configs")
    return {
        name: {
            str(key): int(str(count)) for one in items(told, name) for key, count in mapping(one, "mig-devices").items()
        }
        if "." not in name
        else {}
        for name in told
    }


def plan_of(world: World, kind: Kind) -> Pool:
    """The config's pool. Raises `AbsentError` if a group has none."""
    for pool in world.plan.pools:
        if pool.name == kind.labels.get(POOL):
            return pool
    raise AbsentError(f"a pool for {kind.node.name}")
