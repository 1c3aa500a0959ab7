"""From a process of the contract to the parts of its container: command, variables, ports, probes, folders, files.

Whatever the contract implies stands here once; the tiers add only what they decide themselves.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from infra.components.keys import alias
from infra.components.site import Site
from infra.config.kinds import Purpose
from infra.contract import ContractError, Folder, Process, SecretFile
from infra.kube import pods

FILES = "/etc/penstock/files"
KEYS = "/run/penstock"
TLS = "/etc/penstock/tls"
MADE_AT_START = "worker-key"
"""The one secret that Secrets Manager does not hold: it is made for each pod, in the pod."""

KEY_MAKER = "key-maker"
"""Who makes it."""

EVERYWHERE = "0.0.0.0"  # noqa: S104 - inside a pod behind a NetworkPolicy
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the pod's own memory
FIELDS: Mapping[str, str] = {
    "PENSTOCK_ADVERTISE": "status.podIP",
    "PENSTOCK_ZONE": "metadata.labels['topology.kubernetes.io/zone']",
}
PERIOD_S = 5
KEPT = "replica"
"""The life of a folder that a replica must find again, wherever it comes up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A volume that outlives its pod, and where it is mounted. Of `each` replica's own, a StatefulSet makes it."""

    name: str
    path: str
    each: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A process in a place. `claims` says which of its folders, by name, lie on a volume that outlives the pod.

    `arguments` are those of its command.
    """

    process: Process
    site: Site
    claims: Mapping[str, Claim] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)

    def container(self, main: Mapping[str, object], *told: Mapping[str, object]) -> dict[str, object]:
        """The container with all that the contract says, and `told` beside. Raises `ContractError`."""
        variables = [*self._implied(), *told]
        self.process.judge(variables)
        ports = [{"name": port.name, "containerPort": port.number} for port in self.process.ports.values()]
        command = [word.format(**self.arguments) for word in self.process.command]
        found = {**main, "command": command, "env": variables, "volumeMounts": list(self.mounts())}
        return {**found, "ports": ports, **_probes(self.process)} if ports else found

    def volumes(self) -> list[dict[str, object]]:
        """The volumes of its folders and files. Raises `ContractError` if one would end too soon."""
        lost = [
            folder.name for folder in self.process.folders if folder.life == KEPT and folder.name not in self.claims
        ]
        if lost:
            raise ContractError(f"{self.process.name} must find {lost} again: a volume that ends with its pod won't do")
        made = {claim.name: _claimed(claim) for claim in self.claims.values() if not claim.each}
        scratch = [_empty(folder) for folder in self.process.folders if folder.name not in self.claims]
        return [*scratch, *made.values(), *(volume for _, volume, _ in self._secrets())]

    def grace_s(self, drain_s: float) -> int:
        """How long after SIGTERM a pod may take that drains for so long."""
        return math.ceil(drain_s + self.process.beyond_s)

    def _implied(self) -> Iterator[dict[str, object]]:
        fixed = {"PENSTOCK_HOST": EVERYWHERE, "PENSTOCK_METRICS_HOST": EVERYWHERE, "PENSTOCK_REGION": self.site.region}
        fixed |= {"PENSTOCK_SEALING_KEY": f"awskms:///{alias(Purpose.SEALING, self.site)}"}
        fixed |= {port.setting: str(port.number) for port in self.process.ports.values()}
        fixed |= {folder.setting: self._path(folder) for folder in self.process.folders if folder.setting}
        fixed |= {secret.setting: file_of(secret) for secret in self.process.secrets}
        fixed |= certificate_files(self.process)
        fixed |= {f"PENSTOCK_{store.upper()}_USER": role for store, role in self.process.roles.items()}
        for name, value in fixed.items():
            if name in self.process.settings or name == "TMPDIR":
                yield pods.plain(name, value)
        for name, path in FIELDS.items():
            if name in self.process.settings:
                yield pods.from_field(name, path)
        for name in self.process.needed:
            if self.process.setting(name).kind == "secret":
                yield pods.from_secret(name, self.process.name, secret_name(name))
        if {"artifacts", "audit"} & self.process.calls.keys():
            yield pods.plain("AWS_REGION", self.site.region)

    def _path(self, folder: Folder) -> str:
        claim = self.claims.get(folder.name)
        return f"{claim.path}/{PurePosixPath(folder.path).name}" if claim else folder.path

    def mounts(self) -> Iterator[dict[str, object]]:
        """Where its folders and files are in the container."""
        for folder in self.process.folders:
            if folder.name not in self.claims:
                yield {"name": volume_of(folder), "mountPath": folder.path}
        for claim in dict.fromkeys(self.claims.values()):
            yield {"name": claim.name, "mountPath": claim.path}
        for name, _, path in self._secrets():
            yield {"name": name, "mountPath": path, "readOnly": True}

    def _secrets(self) -> Iterator[tuple[str, dict[str, object], str]]:
        if any(secret.name != MADE_AT_START for secret in self.process.secrets):
            yield "files", secret_volume("files", files_of(self.process.name)), FILES
        if any(secret.name == MADE_AT_START for secret in self.process.secrets):
            yield "keys", {"name": "keys", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}, KEYS
        if self.process.certificate is not None:
            yield "tls", secret_volume("tls", certificate_secret(self.process.certificate.role)), TLS


def certificate_secret(role: str) -> str:
    """The Kubernetes secret that cert-manager keeps a role's certificate in."""
    return f"{role}-tls"


def certificate_files(process: Process) -> Mapping[str, str]:
    """A process's certificate by variable, under the names that cert-manager gives its parts."""
    own = process.certificate
    if own is None:
        return {}
    return {own.certificate: f"{TLS}/tls.crt", own.key: f"{TLS}/tls.key", own.authorities: f"{TLS}/ca.crt"}


def file_of(secret: SecretFile) -> str:
    """Where a secret lies inside the container."""
    return f"{KEYS if secret.name == MADE_AT_START else FILES}/{secret.name}"


def files_of(workload: str) -> str:
    """The Kubernetes secret that a workload's files come from; those of its variables have its own name."""
    return f"{workload}-files"


def secret_name(setting: str) -> str:
    """The name in Secrets Manager of a secret that is a variable: `PENSTOCK_DATABASE_URL` is `database-url`."""
    return setting.removeprefix("PENSTOCK_").replace("_", "-").lower()


def secret_volume(name: str, secret: str) -> dict[str, object]:
    """A secret as files that the pod's group alone may read (0440)."""
    return {"name": name, "secret": {"secretName": secret, "defaultMode": 0o440}}


def volume_of(folder: Folder) -> str:
    """The name of a folder's volume."""
    return folder.name.replace(" ", "-")


def _claimed(claim: Claim) -> dict[str, object]:
    return {"name": claim.name, "persistentVolumeClaim": {"claimName": claim.name}}


def _empty(folder: Folder) -> dict[str, object]:
    limit = {"sizeLimit": f"{folder.size_bytes >> 20}Mi"}
    memory = {"medium": "Memory"} if folder.path == SHARED_MEMORY else {}
    return {"name": volume_of(folder), "emptyDir": {**memory, **limit}}


def _probes(process: Process) -> dict[str, object]:
    live, ready = process.probes["live"], process.probes["ready"]
    start = math.ceil(live.start_within_s / PERIOD_S)
    return {
        "livenessProbe": pods.http_probe(live, period_s=10, failures=6),
        "readinessProbe": pods.http_probe(ready, period_s=PERIOD_S, failures=2),
        "startupProbe": pods.http_probe(live, period_s=PERIOD_S, failures=start),
    }
