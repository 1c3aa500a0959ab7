"""A cluster's own acts: pods for Deployments, numbers by the scaler, rollouts, evictions.

Only effects that Penstock's controller can see are imitated: ReplicaSets and the HPA are left out. A Deployment without
a number gets 1 (as the API defaults it); a new ScaledObject brings it to its minimum, if there is no load, and keeps it
within its bounds, as KEDA and its HPA do.
"""

import copy
import hashlib
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.clusters.field_owners import Json
from tests.support.clusters.store import Store

KEDA = "keda-operator"
Told = Callable[[Json], None]


@dataclass(kw_only=True)
class Cluster:
    """Keeps pods as Deployments say. ``on_start`` and ``on_stop`` hear of pods that should run, and should end."""

    store: Store
    on_start: Told = lambda pod: None
    on_stop: Told = lambda pod: None
    _scaled: set[str] = field(default_factory=set)
    _gated: set[str] = field(default_factory=set)
    _heard: list[tuple[Told, Json]] = field(default_factory=list)

    def settle(self) -> list[tuple[Told, Json]]:
        """Bring numbers and pods to their targets; return the calls to make once the store is free."""
        for deployment in self.store.of("deployments"):
            self._number(deployment)
            self._pods(deployment)
        for pod in self.store.of("pods"):
            if pod["metadata"]["name"] in self._gated and not pod["spec"].get("schedulingGates"):
                self._admit(pod["metadata"]["name"])
            owner = pod["metadata"]["labels"].get("penstock.io/workload", "")
            if owner and ("deployments", owner) not in self.store.objects:
                self.stop(pod)
        heard, self._heard = self._heard, []
        return heard

    def _number(self, deployment: Json) -> None:
        name = deployment["metadata"]["name"]
        scaler = self.store.objects.get(("scaledobjects", name))
        number = deployment["spec"].get("replicas", 1)
        if scaler and scaler["metadata"]["uid"] not in self._scaled:
            self._scaled.add(scaler["metadata"]["uid"])
            number = scaler["spec"]["minReplicaCount"]
        if scaler:
            number = min(max(number, scaler["spec"]["minReplicaCount"]), scaler["spec"]["maxReplicaCount"])
        if number != deployment["spec"].get("replicas"):
            self.store.change("deployments", name, lambda it: it["spec"].update(replicas=number), KEDA)

    def _pods(self, deployment: Json) -> None:
        """One more than the number while a newer template rolls out; an older pod goes once a newer one is ready."""
        name, number = deployment["metadata"]["name"], deployment["spec"]["replicas"]
        mark = hash_of(deployment["spec"]["template"])
        alive = [one for one in self.store.of("pods") if _is_of(one, name) and not _is_going(one)]
        new = [one for one in alive if one["metadata"]["labels"].get("pod-template-hash") == mark]
        old = [one for one in alive if one not in new]
        surge = 1 if old and number else 0
        for _ in range(min(number - len(new), number + surge - len(alive))):
            self._start(deployment, mark)
        ready = [one for one in new if is_ready(one)]
        superfluous = len(old) - max(0, number - len(ready))
        for one in sorted(old, key=_cost)[: max(0, superfluous)]:
            self.stop(one)
        for one in sorted(new, key=_cost)[: max(0, len(new) - number)]:
            self.stop(one)
        self._tell_status(deployment, mark)

    def _tell_status(self, deployment: Json, mark: str) -> None:
        """Say what the Deployment's own controller says: how many pods there are, of which template, how many ready."""
        name = deployment["metadata"]["name"]
        pods = [one for one in self.store.of("pods") if _is_of(one, name) and not _is_going(one)]
        new = [one for one in pods if one["metadata"]["labels"].get("pod-template-hash") == mark]
        counts = {"replicas": len(pods), "updatedReplicas": len(new), "readyReplicas": sum(map(is_ready, pods))}
        status = {"observedGeneration": deployment["metadata"]["generation"], **counts}
        self.store.change("deployments", name, lambda it: it.update(status=status), "kube-controller-manager")

    def _start(self, deployment: Json, mark: str) -> None:
        template = copy.deepcopy(deployment["spec"]["template"])
        name = f"{deployment['metadata']['name']}-{mark}-{secrets.token_hex(3)[:5]}"
        meta = {**template["metadata"], "name": name, "namespace": deployment["metadata"]["namespace"]}
        meta["labels"] = {**meta["labels"], "pod-template-hash": mark}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
        gated = bool(template["spec"].get("schedulingGates"))
        status = {"phase": "Pending", **({} if gated else {"startTime": self.store.now()})}
        pod = self.store.add("pods", {**body, "status": status})
        if gated:
            self._gated.add(name)
        else:
            self._heard.append((self.on_start, copy.deepcopy(pod)))

    def _admit(self, name: str) -> None:
        """Give a pod whose gate was opened a node, as scheduler and kubelet do."""
        self._gated.discard(name)
        at, node = self.store.now(), self._node(self.store.objects["pods", name])
        self.store.change("pods", name, lambda it: it["spec"].update(nodeName=node), "kube-scheduler")
        self.store.change("pods", name, lambda it: it["status"].update(startTime=at), "kubelet")
        self._heard.append((self.on_start, copy.deepcopy(self.store.objects["pods", name])))

    def _node(self, pod: Json) -> str:
        """Return the preferred free node, else a new one; each has room for one pod."""
        terms = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
        preferred = [
            name
            for term in terms.get("preferredDuringSchedulingIgnoredDuringExecution", ())
            for found in term["preference"]["matchFields"]
            for name in found["values"]
        ]
        taken = {one["spec"].get("nodeName") for one in self.store.of("pods")}
        return next((name for name in preferred if name not in taken), f"node-{secrets.token_hex(3)}")

    def stop(self, pod: Json) -> None:
        """Tell a pod to end: it stays until its host says that it has."""
        if _is_going(pod):
            return
        grace_s = pod["spec"].get("terminationGracePeriodSeconds", 30)
        marks = {"deletionTimestamp": self.store.now(), "deletionGracePeriodSeconds": grace_s}
        name = pod["metadata"]["name"]
        self.store.change("pods", name, lambda it: it["metadata"].update(marks), "kubelet")
        self._heard.append((self.on_stop, copy.deepcopy(self.store.objects["pods", name])))


def hash_of(template: Json) -> str:
    """Return what tells one template from another, as a ReplicaSet's pods carry it."""
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:9]


def is_ready(pod: Json) -> bool:
    """Tell whether its host called it ready."""
    conditions = (pod.get("status") or {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _is_of(pod: Json, deployment: str) -> bool:
    return bool(pod["metadata"]["labels"].get("penstock.io/workload") == deployment)


def _is_going(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"] or (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")


def _cost(pod: Json) -> tuple[bool, int, str]:
    """Return the order of eviction: not ready, then the cheapest by annotation (ReplicaSet's own order, shortened)."""
    cost = pod["metadata"].get("annotations", {}).get("controller.kubernetes.io/pod-deletion-cost", "0")
    return is_ready(pod), int(cost), pod["metadata"]["name"]
