"""A pod's place: a node that takes it, an account, a rank, a budget, zones, a cache, and time to end."""

from collections.abc import Iterator, Mapping

from infra.components.labels import CAPACITY
from infra.graph.values import Json, dig, items, mapping, number, parsed, text
from infra.rendered.checked_in import facts
from tests.infra.model.machines import SLICE, WHOLE, Kind, asked, kinds
from tests.infra.model.world import NAME, AbsentError, World, main, told, when

EVICTED_S = 15 * 60
"""https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html: PodEvictionFailure."""
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
Pod = Mapping[str, Json]


def places(world: World) -> Iterator[str]:
    """Each pod of the stacks finds machines, an account, a rank, a namespace, a budget and zones."""
    found = kinds(world)
    names = {
        kind: {text(one.inputs, "metadata.name") for one in world.of(kind)} for kind in ("Namespace", "ServiceAccount")
    }
    ranks = {text(one.inputs, "metadata.name"): number(one.inputs, "value") for one in world.of("PriorityClass")}
    for node in (*world.of("Release"), *(one for one, _, _ in world.pods())):
        if (text(node.inputs, "metadata.namespace") or text(node.inputs, "namespace")) not in names["Namespace"]:
            yield f"{node.name} stands in a namespace that nobody makes"
    for node, own, spec in world.pods():
        takers, ours = (
            [kind for kind in found if kind.takes(spec)],
            str(own.get("app.kubernetes.io/part-of")) == "penstock",
        )
        known = text(spec, "serviceAccountName") in names["ServiceAccount"]
        yield from when(
            (not takers, f"{node.name}: no node takes its pods"),
            (
                not mapping(node.inputs, "spec.selector.matchLabels").items() <= own.items(),
                f"{node.name}: selects others",
            ),
            (
                ours and text(node.inputs, "metadata.namespace") != "penstock",
                f"{node.name}: stands where nothing is shut",
            ),
            (ours and not known, f"{node.name}: its account does not exist"),
        )
        if ours and not node.type.endswith(":Job"):
            yield from (f"{node.name}: {fault}" for fault in lasting(world, own, spec, takers))
            yield from when((text(spec, "priorityClassName") not in ranks, f"{node.name}: its rank does not exist"))
    if sorted(ranks, key=lambda one: -ranks[one])[:2] != ["penstock-gateway", "penstock-controller"]:
        yield "workers push gateways off their nodes"
    yield from asked_for(world, found)
    yield from endings(world, found)
    yield from cached(world, found)


def lasting(world: World, own: Pod, spec: Pod, takers: list[Kind]) -> Iterator[str]:
    """A pod that goes on: it leaves in time, lets others go, and no zone or node takes all of its kind."""
    budgets = [mapping(one.inputs, "spec.selector.matchLabels") for one in world.of("PodDisruptionBudget")]
    spreads = {text(one, "topologyKey"): one for one in items(spec, "topologySpreadConstraints")}
    alone = len({zone for kind in takers for zone in kind.zones}) == 1
    chosen = [mapping(one, "labelSelector.matchLabels") for one in spreads.values()]
    fair = all(labels and labels.items() <= own.items() for labels in chosen)
    held = [
        one for one in spreads.values() if text(one, "nodeTaintsPolicy") != "Honor" or not items(one, "matchLabelKeys")
    ]
    boxes = [*items(spec, "containers"), *items(spec, "initContainers")]
    yield from when(
        (sum(one.items() <= own.items() for one in budgets) != 1, "no budget, or two: evicted at will, or never"),
        (alone and not any(kind.gpu for kind in takers), "all of its machines are in one zone"),
        (not alone and text(spreads.get(ZONE), "whenUnsatisfiable") != "DoNotSchedule", "one zone may take all of it"),
        (not fair or any(number(one, "maxSkew") != 1 for one in spreads.values()), "spreads against other pods"),
        (held, "a lost zone, or the version before, holds up the others"),
        (own.get(NAME) == "gateway" and HOST not in spreads, "one node may take all of it"),
        (
            not all(number(one, "lifecycle.preStop.sleep.seconds") for one in items(spec, "containers")),
            "is called as it ends",
        ),
        (not all(map(bounded, boxes)), "gets less than it may use"),
    )


def bounded(box: Json) -> bool:
    limits, wanted = mapping(box, "resources.limits"), mapping(box, "resources.requests")
    same = {key: value for key, value in wanted.items() if key != "cpu"} == dict(limits)
    return same and {"cpu", "memory"} <= set(wanted)


def asked_for(world: World, found: list[Kind]) -> Iterator[str]:
    """What is shipped to the controller: each device's pods fit machines, whose scaler may bring as many."""
    shipped = [parsed(mapping(one.inputs, "data").get("pools.json")) for one in world.of("ConfigMap")]
    content = next((one for one in shipped if one is not None), None)
    if content is None:
        raise AbsentError("the pools that the controller places versions in")
    unasked = {kind.node.name for kind in found if kind.gpu}
    for device in items(content, "devices"):
        name, pods = text(device, "name"), [sized(device, one) for one in items(device, "sizes")]
        for pod in pods:
            slices = [count for key, count in asked(pod).items() if key.startswith(SLICE)]
            if not any(kind.takes(pod) for kind in found) or (slices and slices != [1]):
                yield f"{name}: no node holds {dict(asked(pod))}"
        takers = [kind for kind in found if kind.takes(pods[0])]
        unasked -= {kind.node.name for kind in takers}
        resource = next((key for key in asked(pods[0]) if key.startswith("nvidia.com/")), WHOLE)
        brought = {text(one, "scaler"): number(one, "most") for one in items(device, "places")}
        held = {way: sum(one.most * one.devices[resource] for one in takers if one.scaler == way) for way in brought}
        if brought != held or not brought:
            yield f"{name}: scalers bring {held}, and the controller counts on {brought}"
    yield from (f"{name}: no version may ask for it" for name in sorted(unasked))


def sized(device: Json, size: Json) -> Pod:
    """The pod of a device, at a size."""
    spec = mapping(device, "template.spec")
    box: Json = {**mapping({"it": main(spec)}, "it"), "resources": dig(size, "resources")}
    return {**spec, "containers": [box]}


def endings(world: World, found: list[Kind]) -> Iterator[str]:
    """Whoever takes a node away waits for its longest pod, and knows it; daemons find the nodes that need them."""
    longest_s = max(number(spec, "terminationGracePeriodSeconds") for _, _, spec in world.pods())
    release, cluster = world.the("Release", "cluster-autoscaler"), world.the("eks/cluster:Cluster")
    waits_s = number(mapping(release.inputs, "values.extraArgs"), "max-graceful-termination-sec")
    finds = text(release.inputs, "values.autoDiscovery.clusterName")
    yield from when(
        (not longest_s < min(waits_s, EVICTED_S), "the autoscaler, or the update of a group, cuts streams"),
        (finds != text(cluster.inputs, "name"), "the autoscaler finds no group"),
    )
    for chart in {"gpu-operator", "aws-efa-k8s-device-plugin"} & {one.name for one in world.of("Release")}:
        for one in facts()[chart]["workloads"]:
            own = {key: value for key, value in one["node_selector"].items() if key.startswith("penstock.io")}
            if one["kind"] == "DaemonSet" and not any(own.items() <= kind.labels.items() for kind in found):
                yield f"{chart}: its daemon {one['name']} finds no node"


def cached(world: World, found: list[Kind]) -> Iterator[str]:
    """The daemon of the weight cache, the volume and a worker's folders are one place, on each kind of GPU node."""
    daemons = [(node, spec) for node, own, spec in world.pods() if own.get(NAME) == "weight-cache"]
    workers = [spec for _, own, spec in world.pods() if own.get(NAME) == "worker"]
    volume, claim = world.the("PersistentVolume"), world.the("PersistentVolumeClaim", "weight-cache")
    bound = (text(claim.inputs, "spec.volumeName"), text(volume.inputs, "spec.claimRef.namespace"))
    yield from when((bound != (volume.name, "penstock"), "no worker gets the cache's volume"))
    for kind in found:
        if kind.gpu and sum(kind.takes(spec) for _, spec in daemons) != 1:
            yield f"{kind.node.name}: no daemon, or two, prepare its cache"
    for node, spec in daemons:
        yield from (
            f"{node.name}: {fault}" for fault in prepared(spec, text(volume.inputs, "spec.hostPath.path"), workers)
        )


def prepared(spec: Pod, path: str, workers: list[Pod]) -> Iterator[str]:
    hosts, box = {text(one, "name"): text(one, "hostPath.path") for one in items(spec, "volumes")}, main(spec)
    mounts = {text(one, "mountPath"): hosts.get(text(one, "name"), "") for one in items(box, "volumeMounts")}
    given, command = told(box), " ".join(map(str, items(box, "command")))
    root = given.get("CACHE", "")
    disks = (mounts.get(root), mounts.get(given.get("ROOT_DISK", "")))
    yield from when(
        (disks != ("/mnt/k8s-disks/0", "/usr/lib/os-release"), f"compares {disks}, which are not the node's two"),
        (given.get("CAPACITY") != mapping(spec, "nodeSelector").get(CAPACITY), "tells workers another capacity"),
    )
    inner = root + path.removeprefix(mounts.get(root, "?"))
    for worker in workers:
        held, user = told(main(worker)), mapping(worker, "securityContext")
        place = next(
            (text(one, "mountPath") for one in items(main(worker), "volumeMounts") if text(one, "name") == CACHE), "?"
        )
        words = [str(word) for one in items(worker, "initContainers") for word in items(one, "command")]
        looks = [one.replace(place, inner) for one in words if one.startswith(f"{place}/")]
        writes = [
            f"> {held.get('PENSTOCK_CAPACITY_FILE', '?').replace(place, inner)}",
            *(f"touch {one}" for one in looks),
        ]
        owned = f"chown {user.get('runAsUser')}:{user.get('runAsGroup')} {inner}" in command
        yield from when(
            (not looks or not all(one in command for one in writes), "writes what no worker reads"),
            (not owned, "leaves the cache to another user than the worker's"),
            (not held.get("PENSTOCK_NODE_CACHE", "").startswith(f"{place}/"), "weights lie outside of the cache"),
        )


CACHE = "weight-cache"
