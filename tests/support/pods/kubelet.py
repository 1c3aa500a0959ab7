"""What stands between an API server and this machine's pods: starts and ends what it says, and says how they are.

The API server is the fake one (`tests.support.clusters.api`), with the rights of the rendered Role and no others. It
makes pods of Deployments itself, as a cluster does.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.clusters.api import KubeApi
from tests.support.pods.cluster import Cluster
from tests.support.pods.pod import Pod

Json = dict[str, Any]
LOOK_S = 0.2
VERSION = "penstock.io/version"


@dataclass(kw_only=True)
class Kubelet:
    """All nodes of the cluster at once."""

    api: KubeApi
    cluster: Cluster
    pods: dict[str, Pod] = field(default_factory=dict)
    _graces: dict[str, float] = field(default_factory=dict)
    _said: dict[str, tuple[bool, bool, int]] = field(default_factory=dict)
    _ends: threading.Event = field(default_factory=threading.Event)

    def start(self, pod: Json) -> None:
        """Run what the API server wants to run."""
        name = pod["metadata"]["name"]
        self.pods[name] = self.cluster.start(pod, name)

    def stop(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        self.pods[name].end(self._graces.get(name))

    def evict(self, pod: Pod, grace_s: float) -> None:
        """Take a pod's machine away: it is told to end, and has no longer than this."""
        self._graces[pod.name] = grace_s
        self.api.evict(pod.name)

    def of(self, version: str) -> list[Pod]:
        """Return the pods of a version that were not told to go."""
        wanted = [
            name
            for name in self.api.names("pods")
            if (meta := self.api.get("pods", name)["metadata"])["annotations"][VERSION] == version
            and "deletionTimestamp" not in meta
        ]
        return [self.pods[name] for name in wanted if name in self.pods]

    def report(self) -> None:
        """Say how pods are, until the end."""
        while not self._ends.wait(LOOK_S):
            for name, pod in list(self.pods.items()):
                found = (pod.is_ready, pod.is_over, pod.restarts)
                if self._said.get(name) == found or (name in self._said and self._said[name][1]):
                    continue
                self._said[name] = found
                if pod.is_over:
                    self.api.ended(name)
                else:
                    self.api.pod(name, ready=pod.is_ready, ip=pod.address, restarts=pod.restarts)

    def close(self) -> None:
        self._ends.set()


def rights(role: Json) -> Mapping[str, tuple[str, ...]]:
    """Return the verbs that a Role grants, by the kind of object."""
    return {resource: tuple(rule["verbs"]) for rule in role["rules"] for resource in rule["resources"]}


@contextmanager
def kubelet(api: KubeApi, cluster: Cluster) -> Iterator[Kubelet]:
    """Yield what runs the pods of this API server, which grants what the controller's rendered Role does."""
    found = Kubelet(api=api, cluster=cluster)
    api.rights = rights(cluster.find("Role", "controller"))
    api.cluster.on_start, api.cluster.on_stop = found.start, found.stop
    reporting = threading.Thread(target=found.report, name="kubelet")
    reporting.start()
    try:
        yield found
    finally:
        found.close()
        reporting.join(10)
        api.cluster.on_start = api.cluster.on_stop = lambda pod: None
