"""The CPU tier: the gateway drains streams, the controller hands its lock over, the runner puts its jobs back."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pulumi

from infra.components.bucket import SEGMENTS, audit
from infra.components.labels import ROLE
from infra.components.load_balancer import IDLE_S
from infra.components.site import Site
from infra.config.model import ContainerImage, Workload
from infra.contract import process
from infra.kube import pods, scaling
from infra.kube.manifest import Manifest
from infra.kube.namespaces import SERVING
from infra.kube.processes import Claim, Run
from infra.kube.workloads import account, disruption_budget, labels_of, service

UNLISTED_S = 15
"""Time between leaving the endpoints and SIGTERM: the load balancer needs it to hear that a pod is gone."""
KEPT_LONGER_S = 60
"""Seconds that a gateway keeps an idle connection beyond the load balancer, which else sends a request into its end."""

SPOOL = Claim(name="home", path="/var/lib/penstock", each=True)
"""Ledger rows that the database has not yet: a replica that comes up elsewhere finds and delivers them."""
STORAGE_CLASS = "encrypted"
POOLS = "worker-pools"
"""The config map that the controller finds its pools in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """One CPU workload: its process, image, size, what it is told beside the contract, and the port of its service."""

    run: Run
    image: str
    size: Workload
    served: tuple[str, ...]
    told: tuple[Mapping[str, object], ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)
    """Config maps by the folder that each is mounted in."""
    pod_annotations: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    """What its pods are exchanged with when it changes."""

    @property
    def name(self) -> str:
        """The process's own name."""
        return self.run.process.name


def artifact_store(bucket: pulumi.Input[str]) -> dict[str, object]:
    """Where versions are, as a variable."""
    return pods.plain("PENSTOCK_ARTIFACT_STORE", pulumi.Output.concat("s3://", bucket, "/models"))


def payload_store(bucket: pulumi.Input[str]) -> dict[str, object]:
    """Where requests and results of jobs are kept, as a variable."""
    return pods.plain("PENSTOCK_PAYLOADS_URL", pulumi.Output.concat("s3://", bucket, "/payloads"))


def controller_url() -> str:
    """Where workers find the controller."""
    return f"https://controller.{SERVING}.svc:{process('controller').ports['api'].number}"


def gateway(
    site: Site, server: object, stores: tuple[Mapping[str, object], ...], target_group_arn: object
) -> Iterator[Manifest]:
    """Everything of the gateway, registered with the region's load balancer by pod address."""
    size, public = site.environment.gateway, process("gateway").ports["public"]
    deployed = Deployed(
        run=Run(process=process("gateway"), site=site, claims={SPOOL.name: SPOOL}),
        image=_reference(site, site.environment.images["gateway"]),
        size=size,
        served=(public.name, "grpc"),
        told=(
            pods.plain("PENSTOCK_DRAIN_GRACE_S", str(size.drain_s)),
            pods.plain("PENSTOCK_GATEWAYS", str(size.min_replicas)),
            pods.plain("PENSTOCK_KEEP_ALIVE_S", str(IDLE_S + KEPT_LONGER_S)),
            *stores,
        ),
        annotations=pods.NOT_AWAITED,  # ready only with a routing table, which comes with the controller
    )
    yield from _workload(deployed, "StatefulSet", _stateful_set)
    yield scaling.gateways(size, server)
    yield Manifest(
        api_version="elbv2.k8s.aws/v1beta1",
        kind="TargetGroupBinding",
        name="gateway",
        namespace=SERVING,
        body={
            "spec": {
                "serviceRef": {"name": "gateway", "port": public.number},
                "targetGroupARN": target_group_arn,
                "targetType": "ip",
            }
        },
    )


def controller(site: Site, pools: str, pools_digest: pulumi.Input[str], budgets: str) -> Iterator[Manifest]:
    """Everything of the controller: two pods, one of which holds the database's lock and works.

    It runs workers in this cluster, in the pools of the file at this path, and heeds the error budgets that the
    Prometheus at this address records.
    """
    folder, bounds = pools.rpartition("/")[0], scaling.bounds(site.environment.gateway)
    deployed = Deployed(
        run=Run(process=process("controller"), site=site),
        image=_reference(site, site.environment.images["controller"]),
        size=site.environment.controller,
        served=("api",),
        told=(
            pods.plain("PENSTOCK_FLEET", "kubernetes"),
            pods.plain("PENSTOCK_POOLS_FILE", pools),
            pods.plain("PENSTOCK_BUDGETS_URL", budgets),
            pods.plain("PENSTOCK_SCALE_FILE", scaling.PATH),
            pods.plain("PENSTOCK_AUDIT_URL", f"s3://{audit(site.environment)}/{SEGMENTS}"),
            pods.plain("PENSTOCK_AUDIT_SIGNING_KEY", f"awskms:///{site.environment.chain_signing_alias}"),
            pods.plain("PENSTOCK_AUDIT_LOCK_DAYS", str(site.environment.retention.audit_days)),
        ),
        configs={folder: POOLS, scaling.PATH.rpartition("/")[0]: scaling.BOUNDS},
        pod_annotations={"penstock.io/pools": pools_digest, "penstock.io/scale": scaling.digest(bounds)},
    )
    yield bounds
    yield from _workload(deployed, "Deployment", _deployment)
    yield from scaling.way_in()


def runner(site: Site, stores: tuple[Mapping[str, object], ...]) -> Iterator[Manifest]:
    """Everything of the jobs runners: nobody calls them, and the database holds all that they have done."""
    size = site.environment.runner
    deployed = Deployed(
        run=Run(process=process("runner"), site=site),
        image=_reference(site, site.environment.images["gateway"]),
        size=size,
        served=(),
        told=(pods.plain("PENSTOCK_DRAIN_GRACE_S", str(size.drain_s)), *stores),
        annotations=pods.NOT_AWAITED,  # ready only with a routing table, which comes with the controller
    )
    yield from _workload(deployed, "Deployment", _deployment)


def _reference(site: Site, image: ContainerImage) -> str:
    return pods.digest_reference(site.registry, image.repository, image.digest)


Spec = Callable[[Deployed, Mapping[str, str]], dict[str, object]]


def _workload(deployed: Deployed, kind: str, spec: Spec) -> Iterator[Manifest]:
    labels = labels_of(deployed.name)
    yield account(deployed.name)
    yield Manifest(
        api_version="apps/v1",
        kind=kind,
        name=deployed.name,
        namespace=SERVING,
        labels=labels,
        annotations=deployed.annotations,
        body={"spec": spec(deployed, labels)},
    )
    if deployed.served:
        yield service(deployed.run.process, *deployed.served)
    yield disruption_budget(deployed.name, labels)


def _deployment(deployed: Deployed, labels: Mapping[str, str]) -> dict[str, object]:
    """Pods without a volume of their own, exchanged one by one, each new one ready before an old one goes."""
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    return {**_replicas(deployed, labels), "strategy": update}


def _stateful_set(deployed: Deployed, labels: Mapping[str, str]) -> dict[str, object]:
    """Replicas with a volume each, which is kept whatever becomes of its pod.

    A volume lies in one zone: while that zone is away its replicas wait, and the scaler makes others elsewhere.
    All come and go at once, since they do not know each other.
    """
    return {
        **_replicas(deployed, labels),
        "serviceName": deployed.name,
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate"},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "volumeClaimTemplates": [_claim(deployed, claim) for claim in deployed.run.claims.values() if claim.each],
    }


def _replicas(deployed: Deployed, labels: Mapping[str, str]) -> dict[str, object]:
    size = deployed.size
    number = {} if size.max_replicas > size.min_replicas else {"replicas": size.min_replicas}
    told = {"annotations": dict(deployed.pod_annotations)} if deployed.pod_annotations else {}
    return {
        **number,  # where a scaler owns it, a rollout must not set it back
        "revisionHistoryLimit": 5,
        "minReadySeconds": 10,
        "selector": {"matchLabels": dict(labels)},
        "template": {"metadata": {"labels": dict(labels), **told}, "spec": _pod(deployed, labels)},
    }


def _claim(deployed: Deployed, claim: Claim) -> dict[str, object]:
    """A volume that one pod at a time may have: of two gateways on one, each would finish what the other runs."""
    (folder,) = (one for one in deployed.run.process.folders if deployed.run.claims.get(one.name) is claim)
    return {
        "metadata": {"name": claim.name},
        "spec": {
            "accessModes": ["ReadWriteOncePod"],
            "storageClassName": STORAGE_CLASS,
            "resources": {"requests": {"storage": f"{max(1, folder.size_bytes >> 30)}Gi"}},
        },
    }


def _pod(deployed: Deployed, labels: Mapping[str, str]) -> dict[str, object]:
    main = pods.container(deployed.name, deployed.image, cpu=deployed.size.cpu, memory=deployed.size.memory)
    main = deployed.run.container(main, *deployed.told)
    main["lifecycle"] = pods.pause_before_stop(UNLISTED_S)
    main["volumeMounts"] = [*deployed.run.mounts(), *_config_mounts(deployed)]
    return {
        "serviceAccountName": deployed.name,
        "automountServiceAccountToken": bool(deployed.run.process.rights),
        "enableServiceLinks": False,
        "priorityClassName": f"penstock-{deployed.name}",
        "nodeSelector": {ROLE: "cpu"},
        "securityContext": dict(pods.SAFE_POD),
        "terminationGracePeriodSeconds": UNLISTED_S + deployed.run.grace_s(deployed.size.drain_s),
        "topologySpreadConstraints": pods.spread(labels, hosts=True),
        "containers": [main],
        "volumes": [
            *deployed.run.volumes(),
            *({"name": name, "configMap": {"name": name}} for name in deployed.configs.values()),
        ],
    }


def _config_mounts(deployed: Deployed) -> Iterator[dict[str, object]]:
    for folder, name in deployed.configs.items():
        yield {"name": name, "mountPath": folder, "readOnly": True}
