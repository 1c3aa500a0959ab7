"""Node pools as they are registered, against the catalogue: where they stand, what they cost, what they promise."""

import base64
from collections.abc import Iterator
from functools import cache

from botocore.session import Session

from infra.catalogue.instances import instances
from infra.components.labels import CAPACITY, FAMILY, GPU, GPU_TAINT, MIG_CONFIG, POOL, ROLE, SCALER
from infra.config.kinds import Capacity, Image, StackKind
from infra.config.pools import Pool
from infra.config.rules_pools import MIN_WARM_RATIO, PAID_AHEAD, quota_demand
from infra.config.zones import pool_zones
from infra.graph.nodes import Node
from infra.graph.values import UNKNOWN, items, mapping, number, text
from infra.policy.invariant import Book, Breach
from infra.policy.view import View

book = Book()

GROUP = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"


@cache
def ec2_types() -> frozenset[str]:
    """Every instance type the EC2 API knows."""
    model = Session().get_service_model("ec2")
    return frozenset(model.shape_for("InstanceType").enum)


def _groups(view: View) -> Iterator[tuple[Node, Pool, Node | None]]:
    """Each node group with its config and its launch template."""
    for node in view.of(GROUP):
        pool = view.region.pool(_label(node, POOL)) if _known(view, node) else None
        templates = [item for item in view.of(TEMPLATE) if item.urn in node.references.get("launchTemplate", ())]
        if pool:
            yield node, pool, templates[0] if templates else None


def _known(view: View, node: Node) -> bool:
    return _label(node, POOL) in {pool.name for pool in view.region.pools}


def _label(node: Node, key: str) -> str:
    return str(mapping(node.inputs, "labels").get(key, ""))


def _types(node: Node, template: Node | None) -> list[str]:
    named = [str(name) for name in items(node.inputs, "instanceTypes")]
    return named or ([text(template.inputs, "instanceType")] if template else [])


@book.rule("pool-zones", "Every pool has a group in each zone of the region that offers its types", StackKind.REGION)
def pool_zones_held(view: View) -> Iterator[Breach]:
    zones = {node.urn: text(node.inputs, "availabilityZoneId") for node in view.of("aws:ec2/subnet:Subnet")}
    stands: dict[str, list[str]] = {}
    for node, pool, _ in _groups(view):
        here = [zones.get(urn, "") for urn in node.references.get("subnetIds", ())]
        stands.setdefault(pool.name, []).extend(here)
        if len(here) != 1:
            yield node, "one zone per group: the autoscaler chooses groups, and must be able to choose a zone"
    for name, found in stands.items():
        wanted = pool_zones(view.region, view.region.pool(name))
        if sorted(found) != sorted(wanted):
            yield None, f"{name} stands in {sorted(found)}; use {list(wanted)}"


@book.rule("pool-known", "Each pool of the config is a node group, and nothing else is", StackKind.REGION)
def pool_known(view: View) -> Iterator[Breach]:
    wanted = {pool.name for pool in view.region.pools if pool.scaler == "asg"}
    found = {_label(node, POOL): node for node in view.of(GROUP)}
    for name in wanted - found.keys():
        yield None, f"add the node group of {name}"
    for name in found.keys() - wanted:
        yield found[name], "add the pool to the config"


@book.rule(
    "paid-capacity", "A paid pool stands in its reservation's zone, starts empty and names the id", StackKind.REGION
)
def paid_capacity(view: View) -> Iterator[Breach]:
    for node, pool, template in _groups(view):
        held = "capacityReservationSpecification.capacityReservationTarget.capacityReservationId"
        named = text(template.inputs, held) if template else ""
        if pool.reservation is None:
            continue
        empty = number(node.inputs, "scalingConfig.minSize") == 0
        if named != pool.reservation.id or not empty or len(items(node.inputs, "subnetIds")) != 1:
            yield (
                node,
                f"name {pool.reservation.id} in the template, minSize 0, one subnet in {pool.reservation.zone_id}",
            )
        if pool.capacity is Capacity.CAPACITY_BLOCK and not _in_block(node, template):
            yield node, "set marketType capacity-block and the instance type in the template"


def _in_block(node: Node, template: Node | None) -> bool:
    return (
        template is not None
        and text(template.inputs, "instanceMarketOptions.marketType") == "capacity-block"
        and bool(text(template.inputs, "instanceType"))
        and not items(node.inputs, "instanceTypes")
        and text(node.inputs, "capacityType") == "CAPACITY_BLOCK"
    )


@book.rule("types-exist", "Every instance type exists in EC2's API and in the catalogue", StackKind.REGION)
def types_exist(view: View) -> Iterator[Breach]:
    for node, _, template in _groups(view):
        for name in _types(node, template):
            if name not in instances() or name not in ec2_types():
                yield node, f"{name} is unknown"


@book.rule("image-fits", "GPU pools boot an image with the driver, CPU pools one without", StackKind.REGION)
def image_fits(view: View) -> Iterator[Breach]:
    for node, pool, _ in _groups(view):
        known = text(node.inputs, "amiType") in list(Image)
        if not known or Image(text(node.inputs, "amiType")).for_gpu != pool.gpu:
            yield node, "choose an *_NVIDIA image for GPU types and only for them"


@book.rule("pool-labels", "Pools carry the labels pods select by; GPU pools repel everything else", StackKind.REGION)
def pool_labels_held(view: View) -> Iterator[Breach]:
    for node, pool, _ in _groups(view):
        wanted = [POOL, ROLE, SCALER, CAPACITY, *([GPU, FAMILY] if pool.gpu else [])]
        lacking = [key for key in wanted if not _label(node, key)]
        tainted = any(text(taint, "key") == GPU_TAINT for taint in items(node.inputs, "taints"))
        if lacking or tainted != pool.gpu:
            yield node, f"add {lacking}; the taint {GPU_TAINT} belongs on GPU pools and only there"


@book.rule("warm-pool", "A warm pool is on demand, of one type, a tenth of the maximum or more", StackKind.REGION)
def warm_pool(view: View) -> Iterator[Breach]:
    for node, pool, template in _groups(view):
        warm = mapping(node.inputs, "warmPoolConfig")
        if not warm:
            if pool.warm_pool and pool.warm_pool.min_size >= len(pool_zones(view.region, pool)):
                yield node, "add warmPoolConfig: the config has one"
            continue
        most = number(node.inputs, "scalingConfig.maxSize")
        fits = MIN_WARM_RATIO * most <= number(warm, "minSize") <= number(warm, "maxGroupPreparedCapacity") <= most
        plain = text(node.inputs, "capacityType") == "ON_DEMAND" and len(_types(node, template)) == 1
        bottled = text(node.inputs, "amiType").startswith("BOTTLEROCKET")
        cold = text(warm, "poolState") != "HIBERNATED" and warm.get("reuseOnScaleIn") is not True
        if not fits or not plain or (bottled and not cold):
            yield (
                node,
                "on demand, one type, 10 % <= minSize <= prepared <= max; Bottlerocket: no reuse, no hibernation",
            )


@book.rule("spot-diverse", "No node group buys GPUs on spot; Karpenter does, over four types or more", StackKind.REGION)
def spot_not_on_asg(view: View) -> Iterator[Breach]:
    for node, pool, _ in _groups(view):
        if pool.gpu and text(node.inputs, "capacityType") == "SPOT":
            yield node, "move the pool to Karpenter"


@book.rule("metadata-closed", "Machines answer for metadata by token alone, one hop away", StackKind.REGION)
def metadata_closed(view: View) -> Iterator[Breach]:
    for node in view.of(TEMPLATE):
        options = "metadataOptions"
        hop = number(node.inputs, f"{options}.httpPutResponseHopLimit")
        if text(node.inputs, f"{options}.httpTokens") != "required" or hop != 1:
            yield node, "set httpTokens required and httpPutResponseHopLimit 1"


@book.rule("disks-encrypted", "Every disk is gp3 and encrypted with the nodes' key", StackKind.REGION)
def disks_encrypted(view: View) -> Iterator[Breach]:
    for node in view.of(TEMPLATE):
        disks = items(node.inputs, "blockDeviceMappings")
        good = [
            text(disk, "ebs.volumeType") == "gp3"
            and text(disk, "ebs.encrypted").lower() == "true"
            and bool(text(disk, "ebs.kmsKeyId"))
            for disk in disks
        ]
        if not disks or not all(good):
            yield node, "give every disk gp3, encrypted and the nodes' key"


@book.rule("nvme-joined", "Instance store is joined into the weight cache where there is any", StackKind.REGION)
def nvme_joined(view: View) -> Iterator[Breach]:
    for node, _, template in _groups(view):
        data = text(template.inputs, "userData") if template else ""
        if template is None or UNKNOWN in data:
            continue
        joined = b"RAID0" in base64.b64decode(data or "")
        nvme = all(instances()[name].nvme_gb > 0 for name in _types(node, template) if name in instances())
        if joined != nvme:
            yield template, "set localStorage.strategy RAID0 exactly where the types have instance store"


@book.rule("mig-labelled", "A pool that is cut carries its layout's label, and its GPUs can be cut", StackKind.REGION)
def mig_labelled(view: View) -> Iterator[Breach]:
    for node, pool, template in _groups(view):
        label = _label(node, MIG_CONFIG)
        able = all(instances()[name].mig for name in _types(node, template) if name in instances())
        if bool(label) != bool(pool.mig) or (label and not able):
            yield node, f"label {MIG_CONFIG} exactly where the config has a layout and the GPU allows one"


@book.rule(
    "efa-together",
    "A pool with EFA has every interface, a placement group unless AWS places it, and one zone",
    StackKind.REGION,
)
def efa_together(view: View) -> Iterator[Breach]:
    groups = {node.name: node for node in view.of("aws:ec2/placementGroup:PlacementGroup")}
    for node, pool, template in _groups(view):
        if not pool.efa or template is None:
            continue
        cards = [str(card) for card in map(_interface, items(template.inputs, "networkInterfaces"))]
        wanted = max(instances()[name].efa for name in pool.instance_types)
        in_block = pool.capacity is Capacity.CAPACITY_BLOCK
        placed = (pool.name in groups and text(groups[pool.name].inputs, "strategy") == "cluster") != in_block
        if cards[:1] != ["efa"] or cards[1:] != ["efa-only"] * (wanted - 1) or not placed:
            yield (
                template,
                f"one efa and {wanted - 1} efa-only interfaces; a cluster placement group where it is no block",
            )
        if len(items(node.inputs, "subnetIds")) != 1:
            yield node, "put the pool into one zone"


def _interface(card: object) -> str:
    return text(card if isinstance(card, dict) else {}, "interfaceType")


@book.rule("scale-from-zero", "An empty group says which devices its nodes will offer", StackKind.REGION)
def scale_from_zero(view: View) -> Iterator[Breach]:
    template = "k8s.io/cluster-autoscaler/node-template/resources"
    for node, pool, _ in _groups(view):
        machine = instances()[pool.instance_types[0]]
        wanted = {f"nvidia.com/mig-{profile}": machine.gpus * count for profile, count in pool.mig.items()}
        wanted |= {"vpc.amazonaws.com/efa": machine.efa} if pool.efa else {}
        tags = mapping(node.inputs, "tags")
        lacking = [name for name, count in wanted.items() if tags.get(f"{template}/{name}") != str(count)]
        if lacking:
            yield node, f"tag the node group with {template}/ and {', '.join(lacking)}"


@book.rule(
    "nodes-follow", "Node groups follow the cluster's version, and have names that can be replaced", StackKind.REGION
)
def nodes_follow(view: View) -> Iterator[Breach]:
    version = view.fleet.environment.kubernetes.version
    for node, _, template in _groups(view):
        prefixed = text(node.inputs, "nodeGroupNamePrefix") and template and text(template.inputs, "namePrefix")
        if text(node.inputs, "version") != version or not prefixed:
            yield node, f"set version {version}, nodeGroupNamePrefix, and the template's namePrefix"


@book.rule("scaler-owns-size", "The scaler owns the size, and sick nodes are replaced", StackKind.REGION)
def scaler_owns_size(view: View) -> Iterator[Breach]:
    for node in view.of(GROUP):
        ignored = "scalingConfig.desiredSize" in node.options.ignore_changes
        if not ignored or items(node.inputs, "nodeRepairConfig.enabled") != [True]:
            yield node, "ignore changes of scalingConfig.desiredSize and enable nodeRepairConfig"


@book.rule("quotas", "The pools' maxima fit the quotas that the account really has", StackKind.REGION)
def quotas(view: View) -> Iterator[Breach]:
    declared = dict(view.region.quotas_vcpu)
    demand = quota_demand(view.region)
    most: dict[str, float] = {}
    for node, pool, _ in _groups(view):
        most[pool.name] = most.get(pool.name, 0) + number(node.inputs, "scalingConfig.maxSize")
    for node, pool, template in _groups(view):
        types = [instances()[name] for name in _types(node, template) if name in instances()]
        grown = (most[pool.name] - pool.max_size) * max((t.vcpu for t in types), default=0)
        if types and demand.get(types[0].quota, 0) + grown > declared.get(types[0].quota, 0):
            yield node, f"needs more {types[0].quota} vCPU than quotas_vcpu grants"


@book.rule("paid-ahead-alarmed", "Every reservation is watched: idle paid capacity is an alarm", StackKind.REGION)
def paid_ahead_alarmed(view: View) -> Iterator[Breach]:
    watched = {
        text(node.inputs, "dimensions.CapacityReservationId")
        for node in view.of("aws:cloudwatch/metricAlarm:MetricAlarm")
    }
    for pool in view.region.pools:
        if pool.capacity in PAID_AHEAD and pool.reservation and pool.reservation.id not in watched:
            yield None, f"add an alarm on {pool.reservation.id} of {pool.name}"
