"""How many gateways and workers: the controller says it, KEDA asks for it and holds it, the HPA passes it through.

Workers' scalers are the controller's own; the gateways' is of the same shape, which the contract carries.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping

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
    """The gateways' scaler: the platform's own shape of one, as the contract carries it, filled in."""
    given = {
        "{KIND}": "StatefulSet",
        "{NAME}": "gateway",
        "{LEAST}": size.min_replicas,
        "{MOST}": size.max_replicas,
        "{HELD}": max(1, size.min_replicas),
        "{SCALER}": address(),
        "{PROMETHEUS}": server,
    }
    return Manifest(
        api_version="keda.sh/v1alpha1",
        kind="ScaledObject",
        name="gateway",
        namespace=SERVING,
        body={"spec": filled(process("gateway").scaler, given)},
    )


def filled(shape: object, given: Mapping[str, object]) -> object:
    """Put values in the place of names: a whole text becomes its value, a name inside a text its words."""
    if isinstance(shape, Mapping):
        return {key: filled(one, given) for key, one in shape.items()}
    if isinstance(shape, list):
        return [filled(one, given) for one in shape]
    if isinstance(shape, str) and shape in given:
        return given[shape]
    return shape.replace("{NAME}", str(given["{NAME}"])) if isinstance(shape, str) else shape
