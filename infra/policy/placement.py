"""Whether pods find machines and scalers find targets: the two halves, workloads and pools, must fit each other."""

from collections.abc import Iterator, Mapping

import yaml

from infra.catalogue.instances import instances
from infra.catalogue.mig import misfit
from infra.components.labels import GPU_TAINT, GPU_TAINT_VALUE, mig_resource, pool_labels
from infra.config.kinds import Capacity, StackKind
from infra.config.pools import Pool
from infra.config.rules_pools import MIN_SPOT_TYPES
from infra.config.zones import pool_zones
from infra.graph.nodes import Node
from infra.graph.values import Json, dig, items, mapping, number, parsed, text
from infra.kube.sizing import device_bytes, workers_held
from infra.policy.invariant import Book, Breach
from infra.policy.shipped import files, standing, workloads
from infra.policy.view import View, pod_spec

book = Book()

SCALED_OBJECT = "ScaledObject"


def _asked(node: Node) -> Mapping[str, Json]:
    containers = items(pod_spec(node), "containers")
    return mapping(containers[0], "resources.requests") if containers else {}


@book.rule(
    "pods-schedulable",
    "Every pod finds a pool by its selector, tolerates it, and fits its smallest machine",
    StackKind.SERVING,
)
def pods_schedulable(view: View) -> Iterator[Breach]:
    for node in workloads(view):
        pod, asked = pod_spec(node), _asked(node)
        wanted = mapping(pod, "nodeSelector")
        held = [pool for pool in view.region.pools if wanted.items() <= pool_labels(pool).items()]
        tolerated = any(_tolerates_gpu(item) for item in items(pod, "tolerations"))
        if not any(_fits(pool, asked) and (tolerated or not pool.gpu) for pool in held):
            yield node, f"no pool carries {dict(wanted)} and holds {dict(asked)}"


def _tolerates_gpu(toleration: Json) -> bool:
    """Whether it lets a pod onto a GPU node, as the scheduler decides.

    https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
    """
    told = mapping({"it": toleration}, "it")
    same_key = told.get("key", "") == GPU_TAINT or (not told.get("key") and told.get("operator") == "Exists")
    same_value = told.get("operator") == "Exists" or told.get("value", "") == GPU_TAINT_VALUE
    return same_key and same_value and told.get("effect", "") in ("", "NoSchedule")


def _fits(pool: Pool, asked: Mapping[str, Json]) -> bool:
    for name in pool.instance_types:
        machine = instances()[name]
        offered = {"nvidia.com/gpu": machine.gpus, "vpc.amazonaws.com/efa": machine.efa if pool.efa else 0}
        if pool.mig:
            offered = {mig_resource(profile): machine.gpus * count for profile, count in pool.mig.items()}
        devices = {key: float(str(value)) for key, value in asked.items() if "/" in key}
        memory = float(str(asked.get("memory", "0Gi")).removesuffix("Gi"))
        cpu = float(str(asked.get("cpu", "0")))
        short = any(count > offered.get(key, 0) for key, count in devices.items())
        if short or memory > machine.memory_gib * 0.9 or cpu > machine.vcpu - 0.5:
            return False
    return True


@book.rule("slices-alone", "A pod on a slice of a GPU uses one slice", StackKind.SERVING)
def slices_alone(view: View) -> Iterator[Breach]:
    for node in workloads(view):
        slices = [str(value) for key, value in _asked(node).items() if key.startswith("nvidia.com/mig-")]
        if slices and slices != ["1"]:
            yield node, "use whole GPUs: slices have no link between them"


@book.rule("floor-not-spot", "No device is offered on spot alone", StackKind.SERVING)
def floor_not_spot(view: View) -> Iterator[Breach]:
    for node, told in files(view):
        on_spot: dict[float, list[bool]] = {}
        for pool in items(told, "pools"):
            on_spot.setdefault(number(pool, "device_bytes"), []).append(dig(pool, "is_spot") is True)
        for size, found in on_spot.items():
            if all(found):
                yield node, f"offer devices of {size / (1 << 30):g} GiB on an on-demand or paid pool too"


@book.rule(
    "pools-shipped",
    "The controller is shipped each GPU pool of the config, with what the pool can hold and whether it may be lost",
    StackKind.SERVING,
)
def pools_shipped(view: View) -> Iterator[Breach]:
    wanted = [pool for pool in view.region.pools if pool.gpu]
    for node, told in files(view):
        shipped = items(told, "pools")
        if list(dict.fromkeys(_pool_of(one) for one in shipped)) != [pool.name for pool in wanted]:
            yield node, f"ship {', '.join(pool.name for pool in wanted)}, in this order"
            continue
        by_name = {pool.name: pool for pool in wanted}
        for one in shipped:
            fault = _misstated(by_name[_pool_of(one)], one)
            if fault:
                yield node, f"{text(one, 'name')}: {fault}"
    if view.kind is StackKind.SERVING and not list(files(view)):
        yield None, "ship the pools: see kube/fleet.py"


def _pool_of(shipped: Json) -> str:
    return str(mapping(shipped, "template.spec.nodeSelector").get("penstock.io/pool", ""))


def _misstated(pool: Pool, shipped: Json) -> str:
    """Say what of a pool is not as its machines are."""
    profile = text(shipped, "device").removeprefix("nvidia.com/mig-") if pool.mig else ""
    if number(shipped, "device_bytes") != device_bytes(pool, profile):
        return f"a device has {device_bytes(pool, profile)} bytes"
    if (dig(shipped, "is_spot") is True) != (pool.capacity is Capacity.SPOT):
        return "spot is what its machines are bought as"
    for size in items(shipped, "sizes"):
        gpus = int(number(size, "gpus"))
        if number(size, "most") != workers_held(pool, gpus, profile):
            return f"it holds {workers_held(pool, gpus, profile)} workers of {gpus} GPUs"
        if text({"it": mapping(size, "resources.limits").get(text(shipped, "device"))}, "it") != str(gpus):
            return f"a worker of {gpus} GPUs asks for {gpus}"
    return ""


@book.rule(
    "scalers-aim", "Every scaler has a target in this stack and bounds that its pool can hold", StackKind.SERVING
)
def scalers_aim(view: View) -> Iterator[Breach]:
    targets = {text(node.inputs, "metadata.name"): node for node in standing(view)}
    for node in view.objects(SCALED_OBJECT):
        target = targets.get(text(node.inputs, "spec.scaleTargetRef.name"))
        least, most = number(node.inputs, "spec.minReplicaCount"), number(node.inputs, "spec.maxReplicaCount")
        if target is None:
            yield node, "aim it at a workload of this stack"
        elif not 0 <= least <= most or most > _capacity(view, target):
            yield node, f"keep min <= max <= {_capacity(view, target)}"


def _capacity(view: View, target: Node) -> float:
    name = str(mapping(pod_spec(target), "nodeSelector").get("penstock.io/pool", ""))
    pools = {pool.name: pool for pool in view.region.pools}
    if name not in pools:
        return view.fleet.environment.gateway.max_replicas
    asked = _asked(target)
    slices = [key.removeprefix("nvidia.com/mig-") for key in asked if key.startswith("nvidia.com/mig-")]
    gpus = int(str(asked.get("nvidia.com/gpu", "1")))
    return workers_held(pools[name], gpus, *slices)


LONGEST_WAIT_S = 600
SKIP = "pulumi.com/skipAwait"


@book.rule(
    "scaled-number-free",
    "Who is scaled says no number: a rollout never sets it back",
    StackKind.SERVING,
    as_written=True,
)
def scaled_number_free(view: View) -> Iterator[Breach]:
    for node in (*view.objects("Deployment"), *view.objects("StatefulSet")):
        if text(node.inputs, "metadata.name") != "controller" and "replicas" in mapping(node.inputs, "spec"):
            yield node, "remove spec.replicas: its ScaledObject owns the number"


@book.rule(
    "late-starters",
    "An update waits for no pod that may need longer than it waits, or that needs what comes after it",
    StackKind.SERVING,
)
def late_starters(view: View) -> Iterator[Breach]:
    for node in standing(view):
        if mapping(node.inputs, "metadata.labels").get("app.kubernetes.io/managed-by") != "penstock-infra":
            continue  # no update waits for what the controller makes
        start_s = number(node.inputs, "spec.progressDeadlineSeconds")
        late = start_s > LONGEST_WAIT_S or text(node.inputs, "metadata.name") == "gateway"
        if late and mapping(node.inputs, "metadata.annotations").get(SKIP) != "true":
            yield node, f"annotate it with {SKIP}"


@book.rule("deployments-scaled", "Every workload of workers and gateways has a scaler", StackKind.SERVING)
def deployments_scaled(view: View) -> Iterator[Breach]:
    aimed = {text(node.inputs, "spec.scaleTargetRef.name") for node in view.objects(SCALED_OBJECT)}
    for node in (*view.objects("Deployment"), *view.objects("StatefulSet")):
        name = text(node.inputs, "metadata.name")
        if name not in aimed and name != "controller":
            yield node, "add a ScaledObject"


@book.rule(
    "burst-pools",
    "Each Karpenter pool of the config is a NodePool with its types, bounds and labels",
    StackKind.PLATFORM,
)
def burst_pools(view: View) -> Iterator[Breach]:
    wanted = {pool.name: pool for pool in view.region.pools if pool.scaler == "karpenter"}
    found = {text(node.inputs, "metadata.name"): node for node in view.objects("NodePool")}
    for name in wanted.keys() ^ found.keys():
        yield found.get(name), f"{name} stands in only one of config and cluster"
    for name, pool in wanted.items():
        if name in found and not _as_configured(found[name], pool):
            yield found[name], "correct types, limits, labels or taint"


def _as_configured(node: Node, pool: Pool) -> bool:
    template = "spec.template"
    labels = mapping(node.inputs, f"{template}.metadata.labels")
    tainted = GPU_TAINT in [text(taint, "key") for taint in items(node.inputs, f"{template}.spec.taints")]
    bound = number(node.inputs, "spec.limits.nodes") == pool.max_size
    return (
        _required(node, "instance-type") == list(pool.instance_types)
        and dict(labels) == pool_labels(pool)
        and tainted
        and bound
    )


def _required(node: Node, key: str) -> list[Json]:
    for item in items(node.inputs, "spec.template.spec.requirements"):
        if text(item, "key").endswith(key):
            return items(item, "values")
    return []


@book.rule("burst-spot-diverse", "A spot NodePool names four types or more of one GPU", StackKind.PLATFORM)
def burst_spot_diverse(view: View) -> Iterator[Breach]:
    for node in view.objects("NodePool"):
        names = [str(name) for name in _required(node, "instance-type")]
        gpus = {instances()[name].gpu for name in names if name in instances()}
        if "spot" in _required(node, "capacity-type") and (len(names) < MIN_SPOT_TYPES or len(gpus) != 1):
            yield node, f"name at least {MIN_SPOT_TYPES} types of the same GPU"


@book.rule(
    "burst-machines",
    "Karpenter's machines are as closed as the others: tokens, encrypted gp3, joined NVMe",
    StackKind.PLATFORM,
)
def burst_machines(view: View) -> Iterator[Breach]:
    for node in view.objects("EC2NodeClass"):
        options, disk = "spec.metadataOptions", "spec.blockDeviceMappings.0.ebs"
        closed = text(node.inputs, f"{options}.httpTokens") == "required"
        one_hop = number(node.inputs, f"{options}.httpPutResponseHopLimit") == 1
        sealed = text(node.inputs, f"{disk}.encrypted") == "True" and bool(text(node.inputs, f"{disk}.kmsKeyID"))
        joined = text(node.inputs, "spec.instanceStorePolicy") == "RAID0"
        if not (closed and one_hop and sealed and joined and text(node.inputs, f"{disk}.volumeType") == "gp3"):
            yield node, "httpTokens required, hop limit 1, gp3 encrypted with the nodes' key, instanceStorePolicy RAID0"


@book.rule("burst-zones", "Karpenter's machines stand in every zone that offers all their types", StackKind.PLATFORM)
def burst_zones(view: View) -> Iterator[Breach]:
    pools = {pool.name: pool for pool in view.region.pools}
    for node in view.objects("EC2NodeClass"):
        pool = pools.get(text(node.inputs, "metadata.name"))
        if pool and len(items(node.inputs, "spec.subnetSelectorTerms")) != len(pool_zones(view.region, pool)):
            yield node, f"select one subnet in each of {', '.join(pool_zones(view.region, pool))}"


@book.rule("mig-layouts", "Every MIG layout can be cut from its pool's GPU", StackKind.PLATFORM)
def mig_layouts(view: View) -> Iterator[Breach]:

    pools = {f"penstock-{pool.name}": pool for pool in view.region.pools}
    for node in view.objects("ConfigMap"):
        if not node.name.endswith("mig-layouts"):
            continue
        content = yaml.safe_load(str(mapping(node.inputs, "data").get("config.yaml", "")))
        layouts = mapping(content, "mig-configs")
        for name in {key for key, pool in pools.items() if pool.mig} - layouts.keys():
            yield node, f"add the layout {name}"
        for name, layout in layouts.items():
            for item in items({"layout": layout}, "layout"):
                cut = {key: int(str(value)) for key, value in mapping(item, "mig-devices").items()}
                fault = misfit(instances()[pools[name].instance_types[0]].gpu, cut) if cut and name in pools else ""
                if fault:
                    yield node, f"{name}: {fault}"


@book.rule(
    "kubeconfig-clean",
    "The kubeconfig holds no credential: a token is made at each use",
    StackKind.PLATFORM,
    StackKind.SERVING,
)
def kubeconfig_clean(view: View) -> Iterator[Breach]:
    for node in view.of("pulumi:providers:kubernetes"):
        config = parsed(node.inputs.get("kubeconfig"))
        users = items(config, "users")
        if config is not None and (not users or any(set(mapping(user, "user")) != {"exec"} for user in users)):
            yield node, "authenticate with exec alone"
