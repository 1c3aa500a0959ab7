"""Secrets enter the cluster as references alone; their bytes come from Secrets Manager at run time."""

from collections.abc import Iterator, Sequence

from infra.components.secrets_manager import secret_path
from infra.components.site import Site
from infra.contract import SecretFile, processes
from infra.contract import process as process_of
from infra.kube.manifest import Manifest
from infra.kube.namespaces import SERVING
from infra.kube.processes import KEY_MAKER, MADE_AT_START, files_of, secret_name

API = "external-secrets.io/v1"
STORE = "aws"
REFRESH = "15m"


def store(site: Site) -> Manifest:
    """The one store, entered with the operator's pod identity, for the namespaces that keep secrets of it."""
    return Manifest(
        api_version=API,
        kind="ClusterSecretStore",
        name=STORE,
        body={
            "spec": {
                "provider": {"aws": {"service": "SecretsManager", "region": site.region}},
                "conditions": [{"namespaces": [SERVING, "monitoring"]}],
            }
        },
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
    """For each process one secret for its variables and one for its files, and the one that workers' keys are made of.

    An exchangeable secret lies in Secrets Manager as JSON by file name, so that the one before it can lie beside it.
    """
    for process in processes().values():
        kinds = (process.setting(name) for name in process.needed)
        variables = [secret_name(setting.name) for setting in kinds if setting.kind == "secret"]
        if variables:
            yield _kept(site, store_name, process.name, one_by_one=variables)
        yield _files(site, store_name, process.name, process.secrets)
    keys = [secret for secret in process_of("init").secrets if secret.name == "platform-key"]
    yield _files(site, store_name, KEY_MAKER, keys)


def _files(site: Site, store_name: object, workload: str, secrets: Sequence[SecretFile]) -> Manifest:
    kept = [secret for secret in secrets if secret.name != MADE_AT_START]
    single = [secret.name for secret in kept if not secret.exchangeable]
    whole = [secret.name for secret in kept if secret.exchangeable]
    return _kept(site, store_name, files_of(workload), one_by_one=single, whole=whole)


def _kept(
    site: Site, store_name: object, name: str, *, one_by_one: Sequence[str], whole: Sequence[str] = ()
) -> Manifest:
    data = [{"secretKey": key, "remoteRef": {"key": secret_path(site, key)}} for key in sorted(one_by_one)]
    extracted = [{"extract": {"key": secret_path(site, key)}} for key in sorted(whole)]
    spec = {
        "refreshInterval": REFRESH,
        "secretStoreRef": {"kind": "ClusterSecretStore", "name": store_name},
        "target": {"name": name, "creationPolicy": "Owner", "deletionPolicy": "Retain"},
        **({"data": data} if data else {}),
        **({"dataFrom": extracted} if extracted else {}),
    }
    return Manifest(api_version=API, kind="ExternalSecret", name=name, namespace=SERVING, body={"spec": spec})
