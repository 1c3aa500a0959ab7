"""Whether pods find machines and scalers find targets: the two halves, workloads and pools, must fit each other."""

from collections import Counter
from collections.abc import Iterator, Mapping

import yaml

from infra.catalogue.instances import instances
from infra.catalogue.mig import misfit
from infra.components.labels import GPU_TAINT, GPU_TAINT_VALUE, mig_resource, pool_labels
from infra.config.kinds import StackKind
from infra.config.pools import Pool
from infra.config.rules_pools import MIN_SPOT_TYPES
from infra.config.zones import pool_zones
from infra.graph.nodes import Node
from infra.graph.values import Json, items, mapping, number, parsed, text
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
    devices = {key: float(str(value)) for key, value in asked.items() if "/" in key}
    memory = float(str(asked.get("memory", "0Gi")).removesuffix("Gi"))
    cpu = float(str(asked.get("cpu", "0")))
    return all(
        all(count <= _offered(pool, name)[key] for key, count in devices.items())
        and memory <= instances()[name].memory_gib * 0.9
        and cpu <= instances()[name].vcpu - 0.5
        for name in pool.instance_types
    )


def _offered(pool: Pool, name: str) -> Counter[str]:
    """Return the extended resources of a machine: a sliced GPU is slices, and no GPU any more."""
    machine = instances()[name]
    sliced = {mig_resource(profile): machine.gpus * count for profile, count in pool.mig.items()}
    efa = {"vpc.amazonaws.com/efa": machine.efa} if pool.efa else {}
    return Counter((sliced or {"nvidia.com/gpu": machine.gpus}) | efa)


@book.rule("slices-alone", "A pod on a slice of a GPU uses one slice", StackKind.SERVING)
def slices_alone(view: View) -> Iterator[Breach]:
    for node in workloads(view):
        slices = [str(value) for key, value in _asked(node).items() if key.startswith("nvidia.com/mig-")]
        if slices and slices != ["1"]:
            yield node, "use whole GPUs: slices have no link between them"


@book.rule(
    "places-exist",
    "Each place that a node scaler may be asked for is on a machine that it may bring, and each GPU pool is asked for",
    StackKind.SERVING,
)
def places_exist(view: View) -> Iterator[Breach]:
    shipped = list(files(view))
    if not shipped and view.kind is StackKind.SERVING:
        yield None, "ship the pools: see kube/fleet.py"
    for node, told in shipped:
        unasked = {pool.name for pool in view.region.pools if pool.gpu}
        for device in items(told, "devices"):
            resource = next((key for key in mapping(device, "sizes.0.resources.limits") if "nvidia" in key), "")
            for place in items(device, "places"):
                pools = [pool for pool in _carrying(view, device) if pool.scaler == text(place, "scaler")]
                held = sum(pool.max_size * _least_offered(pool, resource) for pool in pools)
                unasked -= {pool.name for pool in pools if held}
                if number(place, "most") != held:
                    yield node, f"{text(device, 'name')}: {text(place, 'scaler')} may bring {held} {resource}"
        if unasked:
            yield node, f"ask for {', '.join(sorted(unasked))}"


def _least_offered(pool: Pool, resource: str) -> int:
    return min(_offered(pool, name)[resource] for name in pool.instance_types)


def _carrying(view: View, device: Json) -> list[Pool]:
    wanted = mapping(device, "template.spec.nodeSelector").items()
    efa = "vpc.amazonaws.com/efa" in mapping(device, "sizes.0.resources.limits")
    return [pool for pool in view.region.pools if pool.gpu and wanted <= pool_labels(pool).items() and pool.efa == efa]


@book.rule("scalers-aim", "Every scaler has a target in this stack, and bounds within the config's", StackKind.SERVING)
def scalers_aim(view: View) -> Iterator[Breach]:
    targets = {text(node.inputs, "metadata.name") for node in standing(view)}
    bound = view.fleet.environment.gateway.max_replicas
    for node in view.objects(SCALED_OBJECT):
        least, most = number(node.inputs, "spec.minReplicaCount"), number(node.inputs, "spec.maxReplicaCount")
        name = text(node.inputs, "spec.scaleTargetRef.name")
        if name not in targets:
            yield node, "aim it at a workload of this stack"
        elif not 0 <= least <= most or (name == "gateway" and most > bound):
            yield node, f"keep min <= max <= {bound}"


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
