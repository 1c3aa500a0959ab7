"""What the values of several charts share: where operators run, and what Pod Security `restricted` asks of them.

Most charts leave some of it to their users, and a pod that lacks one field is refused: every chart is told all.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from infra.catalogue.charts import Mirror
from infra.components.labels import ROLE
from infra.components.site import Site
from infra.config.pools import Pool

SELECTOR: Mapping[str, str] = {ROLE: "system"}
SYSTEM: Mapping[str, object] = {"nodeSelector": SELECTOR}
SECCOMP: Mapping[str, str] = {"type": "RuntimeDefault"}
POD: Mapping[str, object] = {"runAsNonRoot": True, "seccompProfile": SECCOMP}
CONTAINER: Mapping[str, object] = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": SECCOMP,
}


CRITICAL: Mapping[str, str] = {"priorityClassName": "system-cluster-critical"}
KEPT: Mapping[str, str] = {"helm.sh/resource-policy": "keep"}
"""On a CRD: a release that goes does not take every object of that kind with it."""


def resources(memory: str, cpu: str = "50m") -> dict[str, object]:
    """Requests, and memory as limit: an operator without requests is evicted first and makes no node look full."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What operators must know of the cluster they run in."""

    site: Site
    name: pulumi.Input[str]
    vpc_id: pulumi.Input[str]
    vpc_cidr: str
    interruption_queue: pulumi.Input[str]
    alarm_topic_arn: pulumi.Input[str]
    watchdog_topic_arn: pulumi.Input[str]
    pools: tuple[Pool, ...]

    def mirror(self, chart: str) -> Mirror:
        """Where the chart's images are pulled from."""
        return Mirror(registry=self.site.registry, chart=chart)
