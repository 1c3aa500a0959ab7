"""Secrets enter the cluster as references alone; their bytes come from Secrets Manager at run time."""

from collections.abc import Iterator, Mapping

from infra.components.site import Site
from infra.components.vault import secret_path
from infra.kube.manifest import Manifest
from infra.kube.namespaces import SERVING

API = "external-secrets.io/v1"
STORE = "aws"
REFRESH = "15m"

WANTED: Mapping[str, Mapping[str, str]] = {
    "gateway": {"database-url": "database-url", "cache-url": "cache-url", "api-key-pepper": "api-key-pepper"},
    "controller": {"database-url": "database-url", "webhook-signing": "webhook-signing"},
}
"""Kubernetes secret to its keys, each the name of a secret in the vault. A worker holds none."""


def store(site: Site) -> Manifest:
    """The one store, entered with the operator's pod identity."""
    return Manifest(
        api_version=API,
        kind="ClusterSecretStore",
        name=STORE,
        body={"spec": {"provider": {"aws": {"service": "SecretsManager", "region": site.region}}}},
    )


def grafana_administrator(site: Site, namespace: str, name: str) -> Manifest:
    """Grafana's first account: one secret with `user` and `password`, written once by an operator."""
    remote = secret_path(site, "grafana-admin")
    data = [
        {"secretKey": f"admin-{part}", "remoteRef": {"key": remote, "property": part}} for part in ("user", "password")
    ]
    return Manifest(
        api_version=API,
        kind="ExternalSecret",
        name=name,
        namespace=namespace,
        body={
            "spec": {
                "refreshInterval": REFRESH,
                "secretStoreRef": {"kind": "ClusterSecretStore", "name": STORE},
                "target": {"name": name, "creationPolicy": "Owner", "deletionPolicy": "Retain"},
                "data": data,
            }
        },
    )


def external_secrets(site: Site, store_name: object) -> Iterator[Manifest]:
    """One reference per workload that needs secrets."""
    for workload, keys in WANTED.items():
        data = [
            {"secretKey": key, "remoteRef": {"key": secret_path(site, remote)}} for key, remote in sorted(keys.items())
        ]
        yield Manifest(
            api_version=API,
            kind="ExternalSecret",
            name=workload,
            namespace=SERVING,
            body={
                "spec": {
                    "refreshInterval": REFRESH,
                    "secretStoreRef": {"kind": "ClusterSecretStore", "name": store_name},
                    "target": {"name": workload, "creationPolicy": "Owner", "deletionPolicy": "Retain"},
                    "data": data,
                }
            },
        )
