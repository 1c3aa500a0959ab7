"""Inside the cluster: KEDA's way to a replica, a secret's to a process, certificates, rights and signatures."""

from collections.abc import Iterator, Mapping
from itertools import product
from urllib.parse import urlsplit

import promql_parser

from infra.contract import process, processes
from infra.graph.nodes import Node
from infra.graph.values import Json, items, mapping, number, parsed, text
from infra.policy.settings import seconds
from tests.infra.model.metrics import exported, unknown
from tests.infra.model.reach import Peer, Way, allowed, zone_of
from tests.infra.model.world import NAME, AbsentError, World, main, opened, told, when

KEDA = Peer(namespace="autoscaling", name="keda-operator")
FIRST_EXACT = (1, 35)
"""The first Kubernetes whose HPA has a tolerance of its own without a feature gate that somebody must set."""
PROMETHEUS = "http://prometheus-operated.monitoring.svc:9090"
STORES = {"limits": ("ReplicationGroup", "limits", 6379), "answers": ("ReplicationGroup", "answers", 6379)}
DATABASE = {"database": ("rds/cluster:Cluster", "penstock", 5432)}


def scaling(world: World) -> Iterator[str]:
    """From the controller's number over KEDA to replicas, and back to what is known if it is away."""
    targets = {text(node.inputs, "metadata.name"): node for node, _, _ in world.pods()}
    aims = {text(one.inputs, "spec.scaleTargetRef.name"): one for one in world.of("ScaledObject")}
    for name, node in aims.items():
        yield from (f"scaler {node.name}: {fault}" for fault in passes(node, targets.get(name)))
        yield from (f"scaler {node.name}: {fault}" for fault in asks(world, node, name))
    for name, node in targets.items():
        kept = node.type.endswith((":Deployment", ":StatefulSet"))
        if kept and (name in aims) == ("replicas" in mapping(node.inputs, "spec")):
            yield f"{node.name}: nobody says its number, or two do"
    version = text(world.the("eks/cluster:Cluster").inputs, "version").split(".")
    if tuple(map(int, version)) < FIRST_EXACT:
        yield "the HPA has no tolerance of its own"
    yield from gateways(world)


def passes(node: Node, target: Node | None) -> Iterator[str]:
    """The HPA hands the number on at once and whole; what is not known holds the replicas that run."""
    spec = mapping(node.inputs, "spec")
    least, most = number(spec, "minReplicaCount"), number(spec, "maxReplicaCount")
    ways = [mapping(spec, f"advanced.horizontalPodAutoscalerConfig.behavior.{way}") for way in ("scaleUp", "scaleDown")]
    kind = target.type.rsplit(":", 1)[-1] if target else "nothing"
    fallback = mapping(spec, "fallback")
    holds = text(fallback, "behavior") == "currentReplicasIfHigher" and number(fallback, "replicas") >= max(1, least)
    yield from when(
        (text(spec, "scaleTargetRef.kind") != kind, f"aims at {kind}"),
        (not 0 <= least <= most or not most, f"may have {least:g} to {most:g} replicas"),
        (not all(at_once(one, most) for one in ways), "is slower than the controller, or ignores small steps"),
        (not holds, "an error takes replicas away"),
        (text(spec, "advanced.restoreToOriginalReplicaCount") == "True", "its end sets the replicas back"),
    )


def at_once(rules: Mapping[str, Json], most: float) -> bool:
    policies = [(text(one, "type"), number(one, "value") >= most) for one in items(rules, "policies")]
    still = text(rules, "stabilizationWindowSeconds") == text(rules, "tolerance") == "0"
    return policies == [("Pods", True)] and still


def asks(world: World, node: Node, name: str) -> Iterator[str]:
    """KEDA asks the controller first, over TLS, then Prometheus for the last number, whose absence is an error."""
    port = process("controller").ports["scaler"].number
    first, *others = items(node.inputs, "spec.triggers")
    host, _, called = text(first, "metadata.scalerAddress").partition(":")
    service = world.the("Service", f"penstock-{host.split('.')[0]}")
    names = items(world.the("Certificate", "controller-tls").inputs, "spec.dnsNames")
    way = Way(caller=KEDA, called=Peer(namespace="penstock", name="controller"), port=port, protocol="TCP")
    way_open = allowed(world.of("NetworkPolicy"), way)
    proper = text(first, "type") == "external-push" and text(first, "metadata.enableTLS") == "true"
    shown = world.the("TriggerAuthentication", text(first, "authenticationRef.name") or "none")
    kept = {text(one.inputs, "spec.secretName"): items(one.inputs, "spec.uris") for one in world.of("Certificate")}
    roles = [kept.get(text(one, "name")) for one in items(shown.inputs, "spec.secretTargetRef")]
    floors = [one for one in others if text(one, "type") == "prometheus"]
    yield from when(
        (not proper or called != str(port), "does not ask the controller by its own protocol"),
        (host not in names, "asks by a name that no certificate has"),
        (text(service.inputs, "spec.clusterIP") != "None", "asks a controller that stands by"),
        (not way_open, "a network policy is in KEDA's way"),
        (roles != [["spiffe://penstock/keda"]] * 3, "shows a certificate that nobody makes, or another's"),
        ({text(one, "metricType") for one in (first, *others)} != {"AverageValue"}, "divides the number otherwise"),
        (not floors, "has no number while the controller is away"),
    )
    for one in floors:
        yield from floor(one, name)


def floor(trigger: Json, name: str) -> Iterator[str]:
    query = text(trigger, "metadata.query")
    promql_parser.parse(query)
    guesses = "vector(" in query or text(trigger, "metadata.ignoreNullValues") != "false"
    plain = text(trigger, "metadata.threshold") == "1" and text(trigger, "metadata.serverAddress") == PROMETHEUS
    yield from when(
        (guesses, "takes no answer for no load"),
        (f'object="{name}"' not in query or unknown(query, exported()), "asks for another's number, or for none"),
        (not plain, "asks no Prometheus of ours, or divides its answer"),
    )


def gateways(world: World) -> Iterator[str]:
    """The scale file's bounds are those of the gateways' scaler, and gateways know their number."""
    scaler, size = world.the("ScaledObject", "gateway"), world.fleet.environment.gateway
    files = [parsed(mapping(one.inputs, "data").get("scale.yaml")) for one in world.of("ConfigMap")]
    (file,) = [one for one in files if one is not None]
    bounds = (number(file, "gateways.least"), number(file, "gateways.most"))
    held = tuple(number(scaler.inputs, f"spec.{one}ReplicaCount") for one in ("min", "max"))
    (_, controller), *_ = world.selected({NAME: "controller"}, "penstock")
    yield from when(
        (not bounds == held == (size.min_replicas, size.max_replicas), "KEDA and controller know other bounds"),
        (told(main(controller)).get("PENSTOCK_BUDGETS_URL") != PROMETHEUS, "rollouts heed no error budget"),
    )


def secrets(world: World) -> Iterator[str]:
    """From Secrets Manager over the store and its conditions into the secrets that pods read."""
    known = {text(one.inputs, "name") for one in world.of("secretsmanager/secret:Secret")}
    stores = {text(one.inputs, "metadata.name"): one for one in world.of("ClusterSecretStore")}
    kept = {(space_of(one), text(one.inputs, "spec.secretName")) for one in world.of("Certificate")}
    for node in world.of("ExternalSecret"):
        store = stores.get(text(node.inputs, "spec.secretStoreRef.name"))
        near = store is not None and text(store.inputs, "spec.provider.aws.region") == world.region
        asked = [text(one, "remoteRef.key") for one in items(node.inputs, "spec.data")]
        asked += [text(one, "extract.key") for one in items(node.inputs, "spec.dataFrom")]
        yield from when(
            (not near or space_of(node) not in opened_to(store), f"{node.name}: its store is not for {space_of(node)}"),
            (not set(asked) <= known, f"{node.name}: Secrets Manager lacks {sorted(set(asked) - known)}"),
        )
        kept.add((space_of(node), text(node.inputs, "spec.target.name")))
    for node, _, spec in world.pods():
        lost = [name for name in sorted(read(spec)) if (space_of(node), name) not in kept]
        yield from (f"{node.name}: {name} comes from nowhere" for name in lost)
    if any(opened_to(one) - {"penstock", "monitoring"} or not opened_to(one) for one in stores.values()):
        yield "every namespace may have every secret"
    yield from addresses(world)


def space_of(node: Node) -> str:
    return text(node.inputs, "metadata.namespace")


def opened_to(store: Node | None) -> set[str]:
    rules = items(store.inputs, "spec.conditions") if store else []
    return {str(one) for rule in rules for one in items(rule, "namespaces")}


def read(spec: Mapping[str, Json]) -> set[str]:
    """The secrets that a pod reads, as files or as variables."""
    files = {text(one, "secret.secretName") for one in items(spec, "volumes")}
    files |= {text(each, "secret.name") for one in items(spec, "volumes") for each in items(one, "projected.sources")}
    boxes = (*items(spec, "containers"), *items(spec, "initContainers"))
    return (files | {text(one, "valueFrom.secretKeyRef.name") for box in boxes for one in items(box, "env")}) - {""}


def addresses(world: World) -> Iterator[str]:
    """The URLs that processes get lead to the stores, whose groups let the network in, and nobody else."""
    written = {one.name: urlsplit(text(one.inputs, "secretString")) for one in world.of("SecretVersion")}
    for name, (kind, called, port) in {**STORES, **DATABASE}.items():
        store = world.the(kind, called)
        url, ends = written.get(f"{name}-url"), ("rediss", text(store.outputs, "primaryEndpointAddress"), port)
        groups = [*items(store.inputs, "vpcSecurityGroupIds"), *items(store.inputs, "securityGroupIds")]
        yield from when(  # the database's URL is written by hand: README, step 4
            (name in STORES and (not url or (url.scheme, url.hostname, url.port) != ends), f"nobody finds {name}"),
            (not opened(world, "Ingress", groups, port, world.plan.cidr), f"nobody reaches {name}"),
        )
        yield from (f"{name} {fault}" for fault in stands(world, store))
    near = {"", world.plan.cidr, *world.fleet.environment.allowed_networks}
    for rule in world.of("SecurityGroupIngressRule"):
        public = any(urn.endswith("::alb") for urn in rule.references.get("securityGroupId", ()))
        if text(rule.inputs, "cidrIpv4") not in near and not public:
            yield f"{rule.name}: strangers come in"


def stands(world: World, store: Node) -> Iterator[str]:
    """Stores lie in the data tier, in two zones or more, with parameters of their own version."""
    service = store.type.split(":")[1].split("/")[0]
    place = text(store.inputs, "subnetGroupName") or text(store.inputs, "dbSubnetGroupName")
    ruled = text(store.inputs, "parameterGroupName") or text(store.inputs, "dbClusterParameterGroupName")
    homes = [one for one in world.of("SubnetGroup") if text(one.inputs, "name") == place and f":{service}/" in one.type]
    subnets = [one for home in homes for one in world.at(home, "subnetIds")]
    version = text(store.inputs, "engineVersion").partition(".")[0]
    rules = [one for one in world.of("ParameterGroup", "ClusterParameterGroup") if text(one.inputs, "name") == ruled]
    zones = {urn for one in world.of("ClusterInstance") for urn in one.references.get("availabilityZone", ())}
    alone = len(zones) < 2 if service == "rds" else number(store.inputs, "numCacheClusters") < 2
    yield from when(
        (set(map(world.tier, subnets)) != {"data"}, "stands where others are"),
        (alone or len(set(map(zone_of, subnets))) < 2, "has nothing to fail over to"),
        (
            [text(one.inputs, "family")[-len(version) :] for one in rules] != [version],
            "has parameters of another version",
        ),
    )


def trust(world: World) -> Iterator[str]:
    """Each role has a certificate of its own, renewed in time, for the names that it is called by."""
    issuers = {text(one.inputs, "metadata.name"): one for one in world.of("ClusterIssuer")}
    roles = {text(one.inputs, "spec.secretName"): one for one in world.of("Certificate")}
    for role in ("gateway", "controller", "worker", "operator", "keda"):
        node = roles.get(f"{role}-tls")
        if node is None or items(node.inputs, "spec.uris") != [f"spiffe://penstock/{role}"]:
            yield f"{role} shows no certificate, or another's"
            continue
        life, before = (seconds(text(node.inputs, f"spec.{part}")) for part in ("duration", "renewBefore"))
        called = role in ("gateway", "controller")
        names = items(node.inputs, "spec.dnsNames")
        yield from when(  # cert-manager.io/docs/usage/certificate/#reissuance-triggered-by-expiry-renewal
            (not 0 < before <= life / 2, f"{role}: is renewed without an end, or after it ended"),
            (text(node.inputs, "spec.issuerRef.name") not in issuers, f"{role}: nobody signs its certificate"),
            (called and f"{role}.penstock.svc" not in names, f"{role}: its certificate has another name"),
        )
    authority = issuers.get("penstock-mesh")
    held = roles.get(text(authority.inputs if authority else None, "spec.ca.secretName"))
    if held is None or text(held.inputs, "spec.isCA").lower() != "true" or space_of(held) != "cert-manager":
        raise AbsentError("an authority where cert-manager looks for it")


Rights = set[tuple[str, str, str]]


def rights(world: World) -> Iterator[str]:
    """Processes may do in the cluster what the contract lists, by the account that their pods have, and no more."""
    wanted: dict[str, Rights] = {
        name: {(one.group, one.resource, verb) for one in each.rights for verb in one.verbs}
        for name, each in processes().items()
    }
    roles = {
        (space_of(one), text(one.inputs, "metadata.name")): one for one in world.of("rbac.authorization.k8s.io/v1:Role")
    }
    granted: dict[str, Rights] = {name: set() for name in wanted}
    for node in world.of("RoleBinding"):
        role = roles.get((space_of(node), text(node.inputs, "roleRef.name")))
        for subject in items(node.inputs, "subjects"):
            if space_of(node) == text(subject, "namespace") == "penstock":
                granted.setdefault(text(subject, "name"), set()).update(ruled(role) if role else ())
    for name in sorted(granted):
        if granted[name] != wanted.get(name, set()):
            yield f"{name} may do {sorted(granted[name] ^ wanted.get(name, set()))} too much or too little"
    for node, own, spec in world.pods():
        if str(own.get(NAME)) in wanted and text(spec, "serviceAccountName") != own.get(NAME):
            yield f"{node.name} has another's account"


def ruled(role: Node) -> Iterator[tuple[str, str, str]]:
    for rule in items(role.inputs, "rules"):
        groups, kinds, verbs = (map(str, items(rule, part)) for part in ("apiGroups", "resources", "verbs"))
        yield from product(groups, kinds, verbs)


def key_addresses(world: World) -> Iterator[str]:
    """Each alias of a key in KMS that a process is told of exists in its region."""
    there = {text(one.inputs, "name") for one in world.of("Alias")}
    for node, _, spec in world.pods():
        for variable in items(spec, "containers.0.env"):
            address = text(variable, "value")
            if address.startswith("awskms:///") and address.removeprefix("awskms:///") not in there:
                yield f"{node.name} finds no key at {address}"


def images(world: World) -> Iterator[str]:
    """Signatures are asked for where our pods run, by the key that the pipeline signs with, of our own images."""
    rule, asked_of = world.the("ValidatingAdmissionPolicy"), world.of("ClusterImagePolicy")
    registry = f"{world.fleet.environment.account_id}.dkr.ecr.{world.region}.amazonaws.com"
    keys = {text(one.inputs, "spec.authorities.0.key.kms").rpartition(":")[2] for one in asked_of}
    unknown_ = sorted(keys - {text(one.inputs, "name") for one in world.of("Alias")})
    globs = {text(one.inputs, "spec.images.0.glob") for one in asked_of}
    plain = any(not items(one.inputs, "spec.authorities.0.attestations") for one in asked_of)
    opted = [one.name for one in world.of("Namespace") if labelled(one, "policy.sigstore.dev/include") == "true"]
    asked = [text(one, "expression") for one in items(rule.inputs, "spec.validations")]
    chosen = items(rule.inputs, "spec.matchConstraints.resourceRules")
    kinds = {str(kind) for one in chosen for kind in items(one, "resources")}
    judged = (
        len(asked) == 2 and "sha256:[0-9a-f]{64}" in asked[0] and f"'{registry}/'" in asked[1] and kinds == {"pods"}
    )
    bound = text(world.the("ValidatingAdmissionPolicyBinding").inputs, "spec.policyName")
    yield from when(
        (unknown_ or not plain, f"the webhook asks for no signature, or by {unknown_}, which signs nothing here"),
        (globs != {f"{registry}/penstock/**"}, "no signature of our images is asked for"),
        (opted != ["penstock"], "the webhook is asked about no pod of ours, or about its own"),
        (bound != text(rule.inputs, "metadata.name"), "the rule about digests is bound to nothing"),
        (not judged, "the API server takes images by tag, or of other registries"),
    )
    pins = world.fleet.environment.charts
    for node in world.of("Release"):
        told_ = (text(node.inputs, "chart"), text(node.inputs, "version"))
        if told_ != (f"oci://{registry}/charts/{node.name}", pins[node.name].version):
            yield f"{node.name} is another chart than was rendered and mirrored"
    for node in world.of("Namespace"):
        level = labelled(node, "pod-security.kubernetes.io/enforce")
        loose = (level == "privileged") != (node.name == "gpu-operator")
        yield from when(
            (loose or (node.name == "penstock" and level != "restricted"), f"{node.name} admits {level} pods")
        )


def labelled(node: Node, label: str) -> Json:
    return mapping(node.inputs, "metadata.labels").get(label)
