"""Who a pod is to its neighbours: a cluster's own authority, and a short-lived certificate per workload (mTLS)."""

from collections.abc import Iterator

from infra.kube.manifest import Manifest
from infra.kube.namespaces import SERVING

ISSUER = "penstock-mesh"
AUTHORITY_SECRET = "penstock-mesh-authority"
LIFE = "24h"
RENEW = "8h"
AUTHORITY_LIFE = "8760h"
CERT_MANAGER = "cert-manager.io/v1"


def authority() -> Iterator[Manifest]:
    """A self-signed root that lives in this cluster alone, and the issuer that signs with it."""
    yield Manifest(
        api_version=CERT_MANAGER, kind="ClusterIssuer", name="penstock-root", body={"spec": {"selfSigned": {}}}
    )
    yield Manifest(
        api_version=CERT_MANAGER,
        kind="Certificate",
        name="penstock-mesh-authority",
        namespace="cert-manager",
        body={
            "spec": {
                "isCA": True,
                "commonName": "penstock-mesh",
                "secretName": AUTHORITY_SECRET,
                "duration": AUTHORITY_LIFE,
                # Renewed with the same key: pods that trust the last certificate go on to know those of the next.
                "privateKey": {"algorithm": "ECDSA", "size": 384, "rotationPolicy": "Never"},
                "issuerRef": {"name": "penstock-root", "kind": "ClusterIssuer", "group": "cert-manager.io"},
            }
        },
    )
    yield Manifest(
        api_version=CERT_MANAGER,
        kind="ClusterIssuer",
        name=ISSUER,
        body={"spec": {"ca": {"secretName": AUTHORITY_SECRET}}},
    )


def workload_certificate(workload: str, issuer: object, *hosts: str) -> Manifest:
    """A certificate that says which workload it is, good for a day, for both ends of a connection.

    `hosts` are names of other services of it, which some callers check.
    """
    return Manifest(
        api_version=CERT_MANAGER,
        kind="Certificate",
        name=f"{workload}-tls",
        namespace=SERVING,
        body={
            "spec": {
                "secretName": f"{workload}-tls",
                "duration": LIFE,
                "renewBefore": RENEW,
                "dnsNames": [f"{workload}.{SERVING}.svc", f"*.{workload}.{SERVING}.svc", *hosts],
                "uris": [f"spiffe://penstock/{workload}"],
                "usages": ["server auth", "client auth"],
                "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
                "issuerRef": {"name": issuer, "kind": "ClusterIssuer", "group": "cert-manager.io"},
            }
        },
    )
