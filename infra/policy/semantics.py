"""What AWS, Kubernetes and their add-ons refuse, or take and do otherwise than it reads; each rule names its source."""

import re
from collections.abc import Iterator

from infra.config.kinds import StackKind
from infra.contract import process
from infra.graph.nodes import Node
from infra.graph.values import UNKNOWN, Json, items, mapping, number, parsed, text
from infra.kube.namespaces import SERVING
from infra.policy.invariant import Book, Breach
from infra.policy.view import View, pod_spec

book = Book()

EBS = "ebs.csi.aws.com"
OF_ONE_NODE = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})
"""What a file system on EBS can be: https://docs.aws.amazon.com/eks/latest/userguide/ebs-csi.html"""
LATEST_SECRET_S = 3600
PART_S = {"h": 3600, "m": 60, "s": 1}


def seconds(duration: str) -> float:
    """Read a duration as Go writes it: ``24h``, ``1h30m``; 0 if it says no time at all."""
    return sum(float(count) * PART_S[unit] for count, unit in re.findall(r"([\d.]+)([hms])", duration))


@book.rule("certificates-renewed", "Every certificate is renewed before it ends, and not at once", StackKind.SERVING)
def certificates_renewed(view: View) -> Iterator[Breach]:
    """A certificate may not be due for renewal when it is made.

    https://cert-manager.io/docs/usage/certificate/#reissuance-triggered-by-expiry-renewal
    """
    for node in view.objects("Certificate"):
        life, before = (seconds(text(node.inputs, f"spec.{part}")) for part in ("duration", "renewBefore"))
        if not 0 < before <= life / 2:
            yield node, "renew in the second half of its life"


@book.rule(
    "secrets-follow",
    "What is exchanged in Secrets Manager reaches the cluster within an hour",
    StackKind.PLATFORM,
    StackKind.SERVING,
)
def secrets_follow(view: View) -> Iterator[Breach]:
    """At 0 a secret is fetched once and never again.

    https://external-secrets.io/latest/api/externalsecret/
    """
    for node in view.objects("ExternalSecret"):
        if not 0 < seconds(text(node.inputs, "spec.refreshInterval")) <= LATEST_SECRET_S:
            yield node, "set refreshInterval between a second and an hour"


@book.rule("volumes-bind", "A volume is made where its first pod stands, encrypted with our key", StackKind.PLATFORM)
def volumes_bind(view: View) -> Iterator[Breach]:
    """A volume that is bound at once chooses the zone before the scheduler does.

    https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode
    """
    for node in view.objects("StorageClass"):
        sealed = mapping(node.inputs, "parameters")
        if text(node.inputs, "volumeBindingMode") != "WaitForFirstConsumer":
            yield node, "set volumeBindingMode WaitForFirstConsumer"
        if text(node.inputs, "provisioner") == EBS and (
            sealed.get("encrypted") != "true" or not sealed.get("kmsKeyId")
        ):
            yield node, "set encrypted and kmsKeyId"


@book.rule("volumes-kept", "A replica's volume outlives it, and is one that EBS can make", StackKind.SERVING)
def volumes_kept(view: View) -> Iterator[Breach]:
    """Kubernetes deletes the claims of removed replicas if it is told to, and their volumes with them.

    https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#persistentvolumeclaim-retention
    """
    for node in view.objects("StatefulSet"):
        kept = mapping(node.inputs, "spec.persistentVolumeClaimRetentionPolicy")
        claims = items(node.inputs, "spec.volumeClaimTemplates")
        if claims and {str(one) for one in kept.values()} - {"Retain"}:
            yield node, "retain its volumes when it is scaled, and when it is deleted: they hold what is owed"
        yield from ((node, remedy) for claim in claims for remedy in _unmakeable(mapping(claim, "spec")))
    for node in view.objects("PersistentVolumeClaim"):
        yield from ((node, remedy) for remedy in _unmakeable(mapping(node.inputs, "spec")))


def _unmakeable(spec: Json) -> Iterator[str]:
    if text(spec, "storageClassName") and not {str(mode) for mode in items(spec, "accessModes")} <= OF_ONE_NODE:
        yield f"ask for one of {', '.join(sorted(OF_ONE_NODE))}"


@book.rule("jobs-end", "A job's pod ends, and its failure is a failure", StackKind.SERVING)
def jobs_end(view: View) -> Iterator[Breach]:
    """The API server takes a job with these two policies alone.

    https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-template
    """
    for node in view.objects("Job"):
        if text(pod_spec(node), "restartPolicy") not in ("Never", "OnFailure"):
            yield node, "set restartPolicy Never or OnFailure: the API server takes no other"


@book.rule(
    "burst-drains", "Karpenter takes no node with work on it for its price, and lets a pod drain", StackKind.PLATFORM
)
def burst_drains(view: View) -> Iterator[Breach]:
    """At the end of a node's grace period pods are deleted, whatever their own says.

    https://karpenter.sh/docs/concepts/disruption/#terminationgraceperiod
    """
    longest = view.fleet.environment.worker_drain_s + process("worker").beyond_s
    for node in view.objects("NodePool"):
        if seconds(text(node.inputs, "spec.template.spec.terminationGracePeriod")) < longest:
            yield node, f"leave a node {longest:g} s to drain, or no terminationGracePeriod"
        if text(node.inputs, "spec.disruption.consolidationPolicy") != "WhenEmpty":
            yield node, "consolidate WhenEmpty: streams would be moved to save on a node"


@book.rule("scrapes-fit", "No scrape may last longer than the time until the next", StackKind.PLATFORM)
def scrapes_fit(view: View) -> Iterator[Breach]:
    """Prometheus takes no configuration whose `scrape_timeout` is greater than its `scrape_interval`.

    https://prometheus.io/docs/prometheus/latest/configuration/configuration/#scrape_config
    """
    for node in view.objects("PodMonitor"):
        for one in items(node.inputs, "spec.podMetricsEndpoints"):
            if not 0 < seconds(text(one, "scrapeTimeout")) <= seconds(text(one, "interval")):
                yield node, "keep scrapeTimeout within interval: Prometheus refuses the whole configuration"


@book.rule("image-rules-reach", "The rules about images are applied to the namespace they are for", StackKind.PLATFORM)
def image_rules_reach(view: View) -> Iterator[Breach]:
    """The API server labels each namespace with its name; the signature's webhook asks for an opt-in.

    https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-metadata-name
    https://docs.sigstore.dev/policy-controller/overview/
    """
    wanted = {"kubernetes.io/metadata.name": SERVING}
    for node in view.objects("ValidatingAdmissionPolicyBinding"):
        if dict(mapping(node.inputs, "spec.matchResources.namespaceSelector.matchLabels")) != wanted:
            yield node, f"select {SERVING} by kubernetes.io/metadata.name"
    for node in view.objects("Namespace"):
        opted = mapping(node.inputs, "metadata.labels").get("policy.sigstore.dev/include") == "true"
        if text(node.inputs, "metadata.name") == SERVING and not opted:
            yield node, 'label it policy.sigstore.dev/include: "true"'


@book.rule("names-resolve", "The network resolves names, or no endpoint could have AWS's own", StackKind.REGION)
def names_resolve(view: View) -> Iterator[Breach]:
    """An endpoint has private DNS only in a network where both are on.

    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateVpcEndpoint.html
    """
    for node in view.of("aws:ec2/vpc:Vpc"):
        if not (node.inputs.get("enableDnsHostnames") is True and node.inputs.get("enableDnsSupport") is True):
            yield node, "set enableDnsHostnames and enableDnsSupport"


@book.rule(
    "targets-drain", "Pods are targets by address, probed in time, and let go when they are done", StackKind.REGION
)
def targets_drain(view: View) -> Iterator[Breach]:
    """A probe that may last as long as its interval is refused; a connection is closed at the end of the delay.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/target-group-health-checks.html
    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-target-group-attributes.html
    """
    for node in view.of("aws:lb/targetGroup:TargetGroup"):
        check = "healthCheck"
        if text(node.inputs, "targetType") != "ip":
            yield node, "set targetType ip: a TargetGroupBinding registers pods by address"
        if not number(node.inputs, f"{check}.timeout") < number(node.inputs, f"{check}.interval"):
            yield node, "keep the probe's timeout below its interval"
        if number(node.inputs, "deregistrationDelay") < view.fleet.environment.gateway.drain_s:
            yield node, "wait as long as a gateway drains: connections are closed at the delay's end"


@book.rule("nodes-admitted", "The nodes' role may join the cluster", StackKind.REGION)
def nodes_admitted(view: View) -> Iterator[Breach]:
    """Managed groups bring an access entry of their own; other nodes need one of this type.

    https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
    """
    found = [node for node in view.of("aws:eks/accessEntry:AccessEntry") if _of_nodes(node)]
    if not found:
        yield None, "add an access entry for the nodes' role: Karpenter's machines bring none"
    for node in found:
        if text(node.inputs, "type") != "EC2_LINUX":
            yield node, "set type EC2_LINUX"


def _of_nodes(entry: Node) -> bool:
    return any("::node-" in urn for urn in entry.references.get("principalArn", ()))


@book.rule("releases-kept", "No image goes by its age that a release may name by digest", StackKind.GLOBAL)
def releases_kept(view: View) -> Iterator[Breach]:
    """With `tagStatus` any or tagged, an image goes though a running pod names it.

    https://docs.aws.amazon.com/AmazonECR/latest/userguide/lifecycle_policy_parameters.html
    """
    policies = [(node, text(node.inputs, "policy")) for node in view.of("aws:ecr/lifecyclePolicy:LifecyclePolicy")]
    templates = view.of("aws:ecr/repositoryCreationTemplate:RepositoryCreationTemplate")
    for node, told in (*policies, *((node, text(node.inputs, "lifecyclePolicy")) for node in templates)):
        chosen = {text(rule, "selection.tagStatus") for rule in items(parsed(told), "rules")}
        if UNKNOWN not in told and chosen != {"untagged"}:
            yield node, "expire untagged images alone"
