"""Remembers the nodes with a version in their cache, so that a new pod of it prefers them. Pure.

Trade-off: learned from pods that became ready and from workers' reports: a node that evicted the copy, or has gone, is
preferred in vain, and a new leader knows the nodes of running pods alone. In return nothing needs a right on nodes.
"""

from typing import Any

from penstock.connectors.kubernetes.pods import Json, is_ready, version_of
from penstock.domain.ids import VersionId

MOST_NODES = 16
"""Nodes named in a pod, the latest first: each is a term of its own, for the API takes one node in a field's term."""


class CachingNodes:
    def __init__(self) -> None:
        self._nodes: dict[VersionId, dict[str, None]] = {}

    def note(self, pod: Json | None) -> None:
        if pod is not None and is_ready(pod):
            self.add(version_of(pod), pod)

    def add(self, version: VersionId, pod: Json) -> None:
        if not (node := pod["spec"].get("nodeName", "")) or not version:
            return
        nodes = self._nodes.setdefault(version, {})
        nodes.pop(node, None)
        nodes[node] = None
        while len(nodes) > MOST_NODES:
            del nodes[next(iter(nodes))]

    def preferred(self, version: VersionId) -> dict[str, Any]:
        """Return the affinity of a pod, empty if no node is known.

        By field, not by host label: Karpenter takes a preferred label for required until it fails, and reads no fields.
        https://github.com/kubernetes-sigs/karpenter/blob/v1.13.0/pkg/controllers/provisioning/scheduling/preferences.go
        """
        nodes = reversed(self._nodes.get(version, {}))
        terms = [
            {
                "weight": 100,
                "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [one]}]},
            }
            for one in nodes
        ]
        return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}} if terms else {}
