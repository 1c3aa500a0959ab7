"""How many gateways and workers: the controller says it, KEDA asks for it and holds it, the HPA passes it through.

Workers' scalers are the controller's own; a test holds the gateways' against theirs.
"""

import hashlib
import json
from collections.abc import Iterator

from infra.config.model import Workload
from infra.contract import process
from infra.kube.manifest import Manifest
from infra.kube.namespaces import SERVING

AUTHENTICATION = "penstock-scaler"
KEDA = "keda"
"""The role of KEDA's certificate."""
PORT = "scaler"
"""The controller's port in the contract."""
SERVICE = "controller-scaler"
HOST = f"{SERVICE}.{SERVING}.svc"
BOUNDS = "scale-bounds"
"""The config map of the scale file."""
FILE = "scale.yaml"
PATH = f"/etc/penstock/scale/{FILE}"
MOST_WORKERS = 1000
"""Of the scale file; what a version really may have, its pools bound."""


def address() -> str:
    """Return where KEDA finds the controllers: all pods' own addresses, of which the leader alone listens."""
    return f"{HOST}:{process('controller').ports[PORT].number}"


def bounds(gateway: Workload) -> Manifest:
    """The scale file: each version as its requests ask for, and gateways by the CPU that these take of them."""
    content = {
        "scale": [{"versions": "*", "least": 1, "most": MOST_WORKERS}],
        "gateways": {"least": gateway.min_replicas, "most": gateway.max_replicas},
    }
    body = {"data": {FILE: json.dumps(content, sort_keys=True)}}
    return Manifest(api_version="v1", kind="ConfigMap", name=BOUNDS, namespace=SERVING, body=body)


def digest(file: Manifest) -> str:
    """Return what changes with the scale file, which the controller reads when it starts."""
    return hashlib.sha256(json.dumps(file.body, sort_keys=True).encode()).hexdigest()


def way_in() -> Iterator[Manifest]:
    """KEDA's way to the leader: a service without an address of its own, and the certificate that KEDA shows."""
    number = process("controller").ports[PORT].number
    yield Manifest(
        api_version="v1",
        kind="Service",
        name=SERVICE,
        namespace=SERVING,
        body={
            "spec": {
                "clusterIP": "None",
                "selector": {"app.kubernetes.io/name": "controller", "app.kubernetes.io/part-of": "penstock"},
                "ports": [{"name": PORT, "port": number, "targetPort": PORT}],
            }
        },
    )
    parts = {"caCert": "ca.crt", "tlsClientCert": "tls.crt", "tlsClientKey": "tls.key"}
    shown = [{"parameter": name, "name": f"{KEDA}-tls", "key": key} for name, key in parts.items()]
    yield Manifest(
        api_version="keda.sh/v1alpha1",
        kind="TriggerAuthentication",
        name=AUTHENTICATION,
        namespace=SERVING,
        body={"spec": {"secretTargetRef": shown}},
    )


def gateways(size: Workload, server: object) -> Manifest:
    """The gateways' scaler. Replicas in `fallback` are needed: with none, KEDA takes an error for no load."""
    told = 'penstock_scale_replicas{object="gateway"}'
    rules = {
        "stabilizationWindowSeconds": 0,
        "tolerance": "0",
        "policies": [{"type": "Pods", "value": size.max_replicas, "periodSeconds": 15}],
    }
    triggers = [
        {
            "type": "external-push",
            "name": "controller",
            "metricType": "AverageValue",
            "metadata": {"scalerAddress": address(), "enableTLS": "true"},
            "authenticationRef": {"name": AUTHENTICATION},
        },
        {
            "type": "prometheus",
            "name": "last-number",
            "metricType": "AverageValue",
            "metadata": {
                "serverAddress": server,
                "query": f"max({told}) or max(last_over_time({told}[1h]))",
                "threshold": "1",
                "activationThreshold": "0",
                "ignoreNullValues": "false",
            },
        },
    ]
    return Manifest(
        api_version="keda.sh/v1alpha1",
        kind="ScaledObject",
        name="gateway",
        namespace=SERVING,
        body={
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "gateway"},
                "minReplicaCount": size.min_replicas,
                "maxReplicaCount": size.max_replicas,
                "pollingInterval": 10,
                "fallback": {
                    "failureThreshold": 3,
                    "replicas": size.min_replicas,
                    "behavior": "currentReplicasIfHigher",
                },
                "advanced": {
                    "restoreToOriginalReplicaCount": False,
                    "horizontalPodAutoscalerConfig": {"behavior": {"scaleUp": rules, "scaleDown": rules}},
                },
                "triggers": triggers,
            }
        },
    )
