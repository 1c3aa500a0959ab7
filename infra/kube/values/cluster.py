"""What stands around the workloads: certificates, secrets, the load balancer's targets, image rules, groups of pods."""

from infra.kube.values.common import CONTAINER, CRITICAL, KEPT, POD, SELECTOR, SYSTEM, ClusterFacts, resources

KUBECTL_COPY = "copied-2026-11"
"""Tag of our copy of an image that upstream publishes under a moving tag alone."""


def load_balancer_controller(facts: ClusterFacts) -> dict[str, object]:
    """Values of the controller that moves pods in and out of a target group, which Pulumi owns.

    Its work on Services and Ingresses is off: their webhooks fail closed, and stop every chart that installs beside it.
    Pods can't ask the metadata service for their network, so the values name it.
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
        "enableServiceMutatorWebhook": False,
        "createIngressClassResource": False,
        "ingressClassParams": {"create": False},
        "webhookConfig": {"disableIngressValidation": True},
        "controllerConfig": {"featureGates": {"EnableServiceController": False}},
        "resources": resources("192Mi"),
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
            "resources": resources("256Mi"),
            "securityContext": POD,
            "containerSecurityContext": CONTAINER,
        }

    return {
        **part("controller"),
        "global": CRITICAL,
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
        **CRITICAL,
        "image": {"repository": image},
        "resources": resources("256Mi"),
        "podSecurityContext": {"enabled": True, **POD},
        "securityContext": {"enabled": True, **CONTAINER},
    }
    return {
        **part,
        "replicaCount": 2,
        "leaderElect": True,
        "installCRDs": True,
        "crds": {"annotations": KEPT},
        "serviceAccount": {"create": True, "name": "external-secrets"},
        "webhook": {**part, "replicaCount": 2},
        "certController": part,
    }


def policy_controller(facts: ClusterFacts) -> dict[str, object]:
    """Values of the webhook that admits signed images alone, and fails closed.

    In this chart `podSecurityContext` is the container's, and `securityContext` the pod's. A key needs no TUF, and
    the program ends itself if Sigstore's public mirror can't be reached at its start.
    """
    mirror = facts.mirror("policy-controller")
    return {
        "commonNodeSelector": SELECTOR,
        "webhook": {
            "replicaCount": 2,
            "image": {"repository": mirror.image("ghcr.io/sigstore/policy-controller/policy-controller")},
            "failurePolicy": "Fail",
            "extraArgs": {"disable-tuf": True},
            "priorityClass": CRITICAL["priorityClassName"],
            "serviceAccount": {"create": True, "name": "policy-controller"},
            "securityContext": {"enabled": True, **POD, "runAsUser": 65532},
            "podSecurityContext": {"enabled": True, **CONTAINER, "runAsUser": 65532},
        },
        "leasescleanup": {
            "image": {"repository": mirror.image("cgr.dev/chainguard/kubectl"), "version": KUBECTL_COPY},
            "priorityClass": CRITICAL["priorityClassName"],
            "resources": resources("64Mi"),
            "podSecurityContext": {"enabled": True, **CONTAINER, "runAsUser": 65532},
        },
        "cosign": {"webhookName": "policy.sigstore.dev"},
    }
