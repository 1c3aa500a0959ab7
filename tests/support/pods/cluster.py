"""A cluster on one machine: objects as the infrastructure renders them, and the parts that act on them in a real
one.

Secrets as External Secrets would make them, services as kube-proxy would serve them, pods of rendered workloads (the
controller's own come from the API server: `kubelet`). Placement on machines and network policies are not its subject.
"""

import copy
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import tree
from tests.support.patience import patient
from tests.support.pods.authority import Authority
from tests.support.pods.network import Network
from tests.support.pods.pod import Machine, Pod

Json = dict[str, Any]
INFRA_PYTHON = tree.ROOT / ".venv-infra/bin/python"
DOMAIN = "svc"
ZONE = "topology.kubernetes.io/zone"
PREFIX_OF_SECRETS = 2
"""A secret's path in Secrets Manager is penstock/<environment>/<name>."""


def rendered(environment: str) -> tuple[Json, ...]:
    """Return every Kubernetes object of an environment, from infra's own programs."""
    command = [str(INFRA_PYTHON), "-m", "infra.capture.objects", environment]
    done = subprocess.run(command, cwd=tree.ROOT, capture_output=True, text=True, check=False, timeout=patient(100))
    assert done.returncode == 0, done.stderr
    return tuple(itertools.chain.from_iterable(json.loads(done.stdout).values()))


def until(what: str, check: Callable[[], object], within_s: float = 60, otherwise: Callable[[], str] = str) -> None:
    """Wait until a check holds, or fail saying what did not come true."""
    end = time.monotonic() + patient(within_s)
    while not check():
        assert time.monotonic() < end, f"not within {within_s:g} s: {what}\n{otherwise()}"
        time.sleep(0.05)


@dataclass(kw_only=True)
class Cluster:
    """What was applied, and the pods that came of it."""

    objects: Sequence[Json]
    machine: Machine
    network: Network
    folder: Path
    pods: list[Pod] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def find(self, kind: str, name: str) -> Json:
        return next(one for one in self.objects if one["kind"] == kind and one["metadata"]["name"] == name)

    def secrets(self, vault: Mapping[str, str]) -> None:
        """Make the secrets that ExternalSecrets ask for. Raises ``KeyError`` for one that the vault lacks."""
        for one in self.objects:
            if one["kind"] == "ExternalSecret" and one["metadata"]["namespace"] == "penstock":
                spec = one["spec"]
                found = {part["secretKey"]: vault[_name(part["remoteRef"])] for part in spec.get("data", [])}
                for part in spec.get("dataFrom", []):
                    found |= json.loads(vault[_name(part["extract"])])
                self.machine.storage.secrets[spec["target"]["name"]] = found

    def configs(self) -> None:
        """Keep the config maps of our namespace."""
        for one in self.objects:
            if one["kind"] == "ConfigMap" and one["metadata"]["namespace"] == "penstock":
                self.machine.storage.configs[one["metadata"]["name"]] = one["data"]

    def certificates(self, issuer: Authority) -> None:
        """Make the secrets that Certificates ask for, as cert-manager would with this authority."""
        for one in self.objects:
            if one["kind"] == "Certificate" and one["metadata"]["namespace"] == "penstock":
                spec = one["spec"]
                issued = issuer.issue(spec["dnsNames"], spec.get("uris", ()))
                self.machine.storage.secrets[spec["secretName"]] = issued

    def services(self) -> dict[str, str]:
        """Serve the services that have an address of their own; return the addresses."""
        found = {}
        for one in self.objects:
            if one["kind"] == "Service" and one["spec"].get("clusterIP") != "None":
                name, namespace = one["metadata"]["name"], one["metadata"]["namespace"]
                found[name] = self.network.name(name, f"{name}.{namespace}", f"{name}.{namespace}.{DOMAIN}")
                for port in one["spec"]["ports"]:
                    ready = self._backends(one["spec"]["selector"], str(port["targetPort"]))
                    self.network.service(found[name], port["port"], ready)
        return found

    def addresses(self, service: str) -> list[str]:
        """Return the addresses that the name of a service without an address of its own leads to."""
        return [pod.address for pod in self.ready(self.find("Service", service)["spec"]["selector"])]

    def ready(self, selector: Mapping[str, str]) -> list[Pod]:
        return [pod for pod in self.pods if pod.is_ready and selector.items() <= pod.labels.items()]

    def _backends(self, selector: Mapping[str, str], port: str) -> Callable[[], list[tuple[str, int]]]:
        return lambda: [(pod.address, pod.port(port)) for pod in self.ready(selector)]

    def job(self, name: str, within_s: float = 60) -> Pod:
        """Run a job's pod to its end."""
        pod = self.start(self.find("Job", name)["spec"]["template"], f"{name}-{next(self._numbers)}")
        pod.wait(within_s)
        return pod

    def deployment(self, name: str) -> list[Pod]:
        """Start as many pods as there are to be at least: by its number, or by its scaler's."""
        found = self.find("Deployment", name)["spec"]
        number = found["replicas"] if "replicas" in found else self._least(name)
        return [self.start(found["template"], f"{name}-{next(self._numbers)}") for _ in range(number)]

    def stateful_set(self, name: str) -> list[Pod]:
        """Start its replicas, which have names and volumes of their own."""
        found = self.find("StatefulSet", name)["spec"]
        number = found["replicas"] if "replicas" in found else self._least(name)
        return [self.replica(name, index) for index in range(number)]

    def replica(self, name: str, index: int) -> Pod:
        """Start one replica of a StatefulSet, with the volumes that it had before, wherever it comes up."""
        found = self.find("StatefulSet", name)["spec"]
        template = copy.deepcopy(found["template"])
        for claim in found["volumeClaimTemplates"]:
            own = {"claimName": f"{claim['metadata']['name']}-{name}-{index}"}
            template["spec"]["volumes"].append({"name": claim["metadata"]["name"], "persistentVolumeClaim": own})
        return self.start(template, f"{name}-{index}")

    def _least(self, name: str) -> int:
        return int(self.find("ScaledObject", name)["spec"]["minReplicaCount"])

    def start(self, template: Json, name: str) -> Pod:
        labels = {**template["metadata"].get("labels", {}), ZONE: "zone-a"}
        body = {"metadata": {"name": name, "labels": labels}, "spec": template["spec"]}
        pod = Pod(body, self.network.pod_address(), self.machine, self.folder).start()
        self.pods.append(pod)
        return pod

    def until_ready(self, *pods: Pod, within_s: float = 60) -> None:
        """Wait until all of them are ready, by their own probes."""
        for pod in pods:
            until(f"{pod.name} is ready", lambda pod=pod: pod.is_ready or pod.is_over, within_s, pod.log)  # type: ignore[misc]
            assert not pod.is_over, f"{pod.name} ended\n{pod.log()}"

    def close(self) -> None:
        for pod in self.pods:
            pod.lose(quietly=True)
        for pod in self.pods:
            pod.wait(20)


def _name(reference: Mapping[str, str]) -> str:
    return "/".join(reference["key"].split("/")[PREFIX_OF_SECRETS:])


class Transcript:
    """What happened and when, as lines on the screen."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self, line: str) -> None:
        sys.stdout.write(f"{time.monotonic() - self._began:6.1f} s  {line}\n")
        sys.stdout.flush()
