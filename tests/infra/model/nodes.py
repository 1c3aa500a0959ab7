"""A node's life: image, disks, interfaces, purchase, zone, and what a scaler may know of it before it is there."""

import base64
import re
from collections.abc import Iterator

from infra.catalogue.mig import misfit
from infra.components.labels import ACCELERATOR, CAPACITY, GPU, GPU_TAINT, MIG_CONFIG, POOL, ROLE
from infra.config.pools import Pool
from infra.config.zones import pool_zones
from infra.contract import process
from infra.graph.nodes import Node
from infra.graph.values import items, mapping, number, text
from infra.policy.settings import seconds
from tests.infra.model.machines import CARDS, Kind, kinds, layouts, plan_of, quantity, template
from tests.infra.model.world import AbsentError, World, when

IMAGES = ("AL2023_x86_64_NVIDIA", "BOTTLEROCKET_x86_64", "BOTTLEROCKET_x86_64_NVIDIA")
BOUGHT = {"ON_DEMAND": {"on-demand", "reserved"}, "SPOT": {"spot"}, "CAPACITY_BLOCK": {"capacity-block"}}
TEMPLATE_TAG = "k8s.io/cluster-autoscaler/node-template/resources"
FIRST = ("vpc-cni", "eks-pod-identity-agent", "kube-proxy")
"""A node is ready once its pods get addresses, by the role that the agent hands out.

https://docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html
"""
SIZES = ("scalingConfig.minSize", "scalingConfig.maxSize", "warmPoolConfig.minSize")


def nodes(world: World) -> Iterator[str]:
    found = kinds(world)
    for kind in found:
        inner = [sound(world, kind), burst(world, kind)]
        if kind.node.type.startswith("aws:"):
            held = template(world, kind.node)
            inner[1:] = [
                group(world, kind, held),
                stored(kind, held),
                bought(world, kind, held),
                linked(world, kind, held),
            ]
        yield from (f"{kind.node.name}: {fault}" for walk in inner for fault in walk)
    yield from tried(found)
    yield from joined(world)
    yield from sizes(world, found)


def sound(world: World, kind: Kind) -> Iterator[str]:
    """What its labels, taints and zones say is true of its machines."""
    plan, layout = plan_of(world, kind), kind.labels.get(MIG_CONFIG, "")
    wanted = set(pool_zones(world.plan, plan))
    offered = all(one.in_zone(world.region, zone) for one in kind.types for zone in kind.zones)
    whole = set(kind.zones) == wanted if kind.scaler == "karpenter" else set(kind.zones) <= wanted
    gpus = {kind.labels.get(GPU)} if kind.gpu else {one.gpu for one in kind.types}
    uncut = misfit(kind.types[0].gpu, dict(layouts(world)[layout])) if layout else ""
    tainted = [text(one, "key") for one in kind.taints]
    told_as = text(world.the("Release", "gpu-operator").inputs, "values.mig.strategy") if layout else ""
    yield from when(
        (tainted != ([GPU_TAINT] if kind.gpu else []), "takes everybody's pods, or nobody's"),
        (gpus != {one.gpu for one in kind.types}, f"a worker for {gpus} gets another GPU"),
        (kind.labels.get(ROLE) != plan.role or not kind.scaler, "pods of its role do not find it"),
        (not kind.zones or not offered or not whole, f"stands in {kind.zones}, and AWS has it in {sorted(wanted)}"),
        (uncut, f"its GPU can't be cut so: {uncut}"),
        (layout and told_as != "mixed", f"slices are told as {told_as}: who asks for one waits for ever"),
        (bool(layout) != bool(plan.mig), "the MIG manager cuts nothing, or what nobody asked for"),
    )


def group(world: World, kind: Kind, held: Node) -> Iterator[str]:
    """A managed group: what boots, who may join, and what the autoscaler may know of it."""
    node, plan, tags = kind.node, plan_of(world, kind), mapping(kind.node.inputs, "tags")
    image, way = text(node.inputs, "amiType"), text(node.inputs, "capacityType")
    named = text(node.inputs, "nodeGroupNamePrefix") and text(held.inputs, "namePrefix")
    disks = {
        text(one, "deviceName"): number(one, "ebs.volumeSize") for one in items(held.inputs, "blockDeviceMappings")
    }
    root = "/dev/xvdb" if image.startswith("BOTTLEROCKET") else "/dev/xvda"
    tiers = {world.tier(one) for one in world.at(node, "subnetIds")}
    unknown = [one for one, count in kind.devices.items() if count and tags.get(f"{TEMPLATE_TAG}/{one}") != str(count)]
    version = text(world.the("eks/cluster:Cluster").inputs, "version")
    yield from when(
        (image not in IMAGES, f"EKS has no image {image}"),
        (image.endswith("_NVIDIA") != kind.gpu, "its GPUs have no driver, or it has one for nothing"),
        (
            kind.labels.get(CAPACITY) not in BOUGHT.get(way, ()),
            f"workers are told {kind.labels.get(CAPACITY)}: it is {way}",
        ),
        (kind.gpu and way == "SPOT", "nobody hears that its machines are taken"),
        (kind.gpu != (ACCELERATOR in kind.labels), "its nodes count as ready before their GPUs are"),
        (text(node.inputs, "version") != version, f"its nodes do not follow the cluster to {version}"),
        (not named, "what an update must replace has a name that is taken"),
        (len(kind.zones) != 1 or len(items(node.inputs, "subnetIds")) != 1, "the autoscaler can't choose a zone in it"),
        (tiers != {"private"}, f"its nodes have no way out from {tiers}"),
        (disks.get(root, 0) < plan.disk_gib, f"images do not fit: {root} has {disks.get(root, 0):g} GiB"),
        (unknown, f"the autoscaler does not know that an empty group brings {unknown}"),
    )


def stored(kind: Kind, held: Node) -> Iterator[str]:
    """Instance store is one array for weights, images stay on a disk that outlives a stop, and warm nodes can wait."""
    node, data = kind.node, base64.b64decode(text(held.inputs, "userData") or "").decode()
    warm, most = mapping(node.inputs, "warmPoolConfig"), number(node.inputs, "scalingConfig.maxSize")
    raid, stopped = "strategy: RAID0" in data, text(warm, "poolState") == "STOPPED"
    bottled = text(node.inputs, "amiType").startswith("BOTTLEROCKET")
    ready = 0 < number(warm, "minSize") <= number(warm, "maxGroupPreparedCapacity") <= most
    plain = text(node.inputs, "capacityType") == "ON_DEMAND" and len(kind.types) == 1
    kept = not raid or "Containerd" in data
    graces = {part: seconds(of) for part, of in re.findall(r"shutdownGracePeriod(CriticalPods|): (\w+)", data)}
    back = bool(warm.get("reuseOnScaleIn")) or text(warm, "poolState") == "HIBERNATED"
    yield from when(
        (
            raid != all(one.nvme_gb for one in kind.types),
            "weights lie on the root disk, or on a store that is not there",
        ),
        (raid and "application/node.eks.aws" not in data, "nodeadm finds no configuration"),
        (graces.get("CriticalPods", 0.0) > graces.get("", 0.0), "kubelet refuses its graces, and no node joins"),
        (warm and not stopped, "waiting machines are billed as if they ran"),
        (warm and not kept, "a warm node loses its images as it stops"),
        (warm and not ready, "no machine waits, or more than may ever start"),
        (warm and not plain, "AWS has no warm pool of spot or of several types"),
        (warm and bottled and back, "Bottlerocket takes no node back, and none hibernates"),
    )


def bought(world: World, kind: Kind, held: Node) -> Iterator[str]:
    """Capacity that is paid for is the one that is used."""
    paid, market = plan_of(world, kind).reservation, text(held.inputs, "instanceMarketOptions.marketType")
    used = text(held.inputs, "capacityReservationSpecification.capacityReservationTarget.capacityReservationId")
    block = kind.labels.get(CAPACITY) == "capacity-block"
    typed = text(held.inputs, "instanceType") and not items(kind.node.inputs, "instanceTypes")
    empty = number(kind.node.inputs, "scalingConfig.minSize") == 0
    yield from when(
        (used != (paid.id if paid else ""), f"runs in {used or 'no reservation'}"),
        (paid and (kind.zones != (paid.zone_id,) or not empty), "its reservation is elsewhere, or has not begun"),
        (market != ("capacity-block" if block else ""), f"EC2 buys it as {market or 'on demand'}"),
        (block and not typed, "EC2 starts nothing in a block without a type in the template"),
    )


def linked(world: World, kind: Kind, held: Node) -> Iterator[str]:
    """EFA: every interface, a placement group unless AWS places the block, and a group open to itself."""
    cards, plan = items(held.inputs, CARDS), plan_of(world, kind)
    if not cards:
        yield from when((plan.efa, "its GPUs talk over one plain interface"))
        return
    wanted = ["efa"] + ["efa-only"] * (max(one.efa for one in kind.types) - 1)
    close = [text(one.inputs, "strategy") for one in world.of("PlacementGroup") if one.name == plan.name]
    block = kind.labels.get(CAPACITY) == "capacity-block"
    own = {str(name) for one in cards for name in items(one, "securityGroups")}
    itself = all(
        any(_open_to(one, own) for one in world.of(f"SecurityGroup{way}Rule")) for way in ("Ingress", "Egress")
    )
    yield from when(
        ([text(one, "interfaceType") for one in cards] != wanted, f"has {len(cards)} of {len(wanted)} interfaces"),
        ([number(one, "networkCardIndex") for one in cards] != [*range(len(cards))], "two interfaces are on one card"),
        (close != ([] if block else ["cluster"]), "AWS places a block itself, others stand apart without a group"),
        (not itself, "EFA needs a group that is open to itself"),
    )


def _open_to(rule: Node, own: set[str]) -> bool:
    ends = {text(rule.inputs, "securityGroupId"), text(rule.inputs, "referencedSecurityGroupId")}
    return text(rule.inputs, "ipProtocol") == "-1" and ends <= own


def burst(world: World, kind: Kind) -> Iterator[str]:
    """A NodePool: the machine that Karpenter starts for it."""
    spec, plan = mapping(kind.node.inputs, "spec.template.spec"), plan_of(world, kind)
    machine = world.the("EC2NodeClass", text(spec, "nodeClassRef.name"))
    wanted = {text(one, "key"): items(one, "values") for one in items(spec, "requirements")}
    ways = wanted.get("karpenter.sh/capacity-type", [])
    few = len(kind.types) < 4 or len({one.gpu for one in kind.types}) > 1
    own = text(world.the("eks/cluster:Cluster").outputs, "vpcConfig.clusterSecurityGroupId")
    held = [text(one, "id") for one in items(machine.inputs, "spec.securityGroupSelectorTerms")]
    release = world.fleet.environment.kubernetes.node_release
    images = [text(one, "alias") for one in items(machine.inputs, "spec.amiSelectorTerms")]
    disk = mapping(machine.inputs, "spec.blockDeviceMappings.0")
    fits = text(disk, "deviceName") == "/dev/xvda" and quantity(text(disk, "ebs.volumeSize") or "0") >= plan.disk_gib
    budgets = items(kind.node.inputs, "spec.disruption.budgets")
    never = any(text(one, "nodes") in ("0", "0%") and not text(one, "schedule") for one in budgets)
    longest_s = world.fleet.environment.worker_drain_s + process("worker").beyond_s
    yield from when(
        (ways != [kind.labels.get(CAPACITY)], f"workers are told {kind.labels.get(CAPACITY)}: it is {ways}"),
        ("spot" in ways and few, "spot of few types is taken back together"),
        (kind.most != plan.max_size, f"Karpenter buys {kind.most:g} machines, and {plan.max_size} are planned"),
        (own not in held, "its machines are outside of the cluster's own group: no pod is reached"),
        (not all(one.endswith(f"@{release}") for one in images), f"starts from another release than {release}"),
        (not fits, "images do not fit"),
        (never, "no empty machine is ever taken away"),
        (text(spec, "expireAfter") != "Never", "its nodes end with their streams, past every budget"),
        # karpenter.sh/docs/concepts/disruption/#terminationgraceperiod: pods are deleted at its end, whatever they say.
        (seconds(text(spec, "terminationGracePeriod")) < longest_s, "a node ends before its streams"),
    )


def tried(found: list[Kind]) -> Iterator[str]:
    """Karpenter tries the heaviest pool first: spot before on demand, which would never be left for it.

    https://karpenter.sh/docs/concepts/nodepools/#specweight
    """
    weights: dict[str, list[float]] = {"spot": [], "on-demand": []}
    for kind in found:
        if kind.scaler == "karpenter":
            weights.setdefault(kind.labels.get(CAPACITY, ""), []).append(number(kind.node.inputs, "spec.weight"))
    if weights["spot"] and weights["on-demand"] and min(weights["spot"]) <= max(weights["on-demand"]):
        yield "Karpenter buys on demand before it asks for spot"


def joined(world: World) -> Iterator[str]:
    """Whose nodes may join, and become ready."""
    addons = {text(one.inputs, "addonName"): one for one in world.of("Addon")}
    pins = world.fleet.environment.kubernetes.addons
    if {name: text(one.inputs, "addonVersion") for name, one in addons.items()} != dict(pins):
        yield "add-ons are others than were tried"
    cni = addons.get("vpc-cni")
    rights = cni and (cni.inputs if cni.existing else cni.references).get("podIdentityAssociations")
    if not set(FIRST) <= set(addons) or not rights:
        raise AbsentError("a pod network with rights: no node becomes ready")
    entries = {urn for one in world.of("AccessEntry") for urn in one.references.get("principalArn", ())}
    for one in world.of("NodeGroup"):
        late = [name for name in FIRST if not addons[name].existing and addons[name].urn not in one.dependencies]
        yield from when(
            (late, f"{one.name} waits for {late}, which come after it"),
            (not set(one.references.get("nodeRoleArn", ())) & entries, f"{one.name}: its role may not join"),
        )
    for one in world.of("EC2NodeClass"):
        profile = world.maker(text(one.inputs, "spec.instanceProfile"), "InstanceProfile")
        if not set(profile.references.get("role", ())) & entries:
            yield f"{one.name}: its role may not join"


def sizes(world: World, found: list[Kind]) -> Iterator[str]:
    """Each pool of the config stands, and its zones add up to it: the config's own rules hold quotas against it."""
    for pool in world.plan.pools:
        mine = [kind for kind in found if kind.labels.get(POOL) == pool.name]
        zones = sorted(zone for kind in mine for zone in kind.zones)
        yield from when((zones != sorted(pool_zones(world.plan, pool)), f"{pool.name} stands in {zones}"))
        yield from summed(pool, mine) if pool.scaler == "asg" else ()


def summed(pool: Pool, mine: list[Kind]) -> Iterator[str]:
    wanted = (pool.min_size, pool.max_size, pool.warm_pool.min_size if pool.warm_pool else 0)
    held = tuple(sum(number(kind.node.inputs, path) for kind in mine) for path in SIZES)
    if held != wanted:
        yield f"{pool.name} has {held} machines at least, at most and waiting, not {wanted}"
    for kind in mine:
        least, now, most = (number(kind.node.inputs, f"scalingConfig.{one}Size") for one in ("min", "desired", "max"))
        if not least <= now <= most or number(kind.node.inputs, "updateConfig.maxUnavailable") < 1:
            yield f"{kind.node.name}: AWS refuses {least:g} to {most:g} machines, {now:g} of them now"
