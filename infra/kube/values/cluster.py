"""What stands around the workloads: certificates, secrets, the load balancer's targets, image rules, groups of pods."""

from infra.kube.values.common import CONTAINER, POD, SELECTOR, SYSTEM, ClusterFacts


def load_balancer_controller(facts: ClusterFacts) -> dict[str, object]:
    """It only moves pods in and out of a target group that Pulumi owns; everything else it could do is off.

    Pods can't ask the metadata service where they are, so it is told its network.
    """
    image = facts.mirror("aws-load-balancer-controller").image("public.ecr.aws/eks/aws-load-balancer-controller")
    return {
        **SYSTEM,
        "clusterName": facts.name,
        "region": facts.site.region,
        "vpcId": facts.vpc_id,
        "replicaCount": 2,
        "enableShield": False,
        "enableWaf": False,
        "enableWafv2": False,
        "enableBackendSecurityGroup": False,
        "image": {"repository": image},
        "serviceAccount": {"create": True, "name": "aws-load-balancer-controller"},
        "podSecurityContext": {**POD, "fsGroup": 65534},
        "securityContext": CONTAINER,
    }


def cert_manager(facts: ClusterFacts) -> dict[str, object]:
    """Four programs, each with an image and a place of its own."""
    mirror = facts.mirror("cert-manager")

    def part(name: str) -> dict[str, object]:
        return {
            **SYSTEM,
            "image": {"repository": mirror.image(f"quay.io/jetstack/cert-manager-{name}")},
            "securityContext": POD,
            "containerSecurityContext": CONTAINER,
        }

    return {
        **part("controller"),
        "replicaCount": 2,
        "crds": {"enabled": True, "keep": True},
        "prometheus": {"enabled": True},
        "webhook": {**part("webhook"), "replicaCount": 2},
        "cainjector": {**part("cainjector"), "replicaCount": 2},
        "startupapicheck": part("startupapicheck"),
        "acmesolver": {"image": {"repository": mirror.image("quay.io/jetstack/cert-manager-acmesolver")}},
    }


def external_secrets(facts: ClusterFacts) -> dict[str, object]:
    """One image in three roles."""
    image = facts.mirror("external-secrets").image("ghcr.io/external-secrets/external-secrets")
    part = {
        **SYSTEM,
        "image": {"repository": image},
        "podSecurityContext": {"enabled": True, **POD},
        "securityContext": {"enabled": True, **CONTAINER},
    }
    return {
        **part,
        "replicaCount": 2,
        "installCRDs": True,
        "serviceAccount": {"create": True, "name": "external-secrets"},
        "webhook": {**part, "replicaCount": 2},
        "certController": part,
    }


def policy_controller(facts: ClusterFacts) -> dict[str, object]:
    """Fails closed: without it no pod of ours is admitted. The chart has one node selector for all its pods.

    In this chart `podSecurityContext` is the container's, and `securityContext` the pod's.
    """
    mirror = facts.mirror("policy-controller")
    return {
        "commonNodeSelector": SELECTOR,
        "webhook": {
            "replicaCount": 2,
            "image": {"repository": mirror.image("ghcr.io/sigstore/policy-controller/policy-controller")},
            "failurePolicy": "Fail",
            "serviceAccount": {"create": True, "name": "policy-controller"},
            "securityContext": {"enabled": True, **POD, "runAsUser": 65532},
            "podSecurityContext": {"enabled": True, **CONTAINER, "runAsUser": 65532},
        },
        "leasescleanup": {"image": {"repository": mirror.image("cgr.dev/chainguard/kubectl")}},
        "cosign": {"webhookName": "policy.sigstore.dev"},
    }
