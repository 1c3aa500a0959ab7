"""A version's new pods prefer the nodes that ran it before: their caches hold its files."""

from typing import Any

from penstock.connectors.kubernetes.fleet import MOST_NODES, CachingNodes
from penstock.domain.ids import VersionId

CHAT = VersionId("chat@0")


def pod(node: str, *, version: str = CHAT, ready: bool = True) -> dict[str, Any]:
    return {
        "metadata": {"name": "a-pod", "annotations": {"penstock.io/version": version}},
        "spec": {"nodeName": node} if node else {},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def preferred(nodes: CachingNodes, version: str = CHAT) -> list[str]:
    found = nodes.preferred(VersionId(version))
    terms = found["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] if found else []
    return [value for term in terms for one in term["preference"]["matchFields"] for value in one["values"]]


def test_the_latest_node_comes_first() -> None:
    """Nodes are named in the order in which a worker was ready there last, each once."""
    nodes = CachingNodes()
    for name in ("a", "b", "c", "a"):
        nodes.note(pod(name))
    assert preferred(nodes) == ["a", "c", "b"]


def test_a_node_counts_once_a_worker_was_ready_there() -> None:
    """A pod that waits, still fetches, has gone, or serves another version is no reason to prefer its node."""
    nodes = CachingNodes()
    for one in (pod(""), pod("a", ready=False), pod("b", version="other@0"), pod("c", version=""), None):
        nodes.note(one)
    assert preferred(nodes) == []
    assert nodes.preferred(CHAT) == {}
    assert preferred(nodes, "other@0") == ["b"]


def test_a_node_counts_if_a_worker_reports_the_version_in_its_cache() -> None:
    """What came ahead, beside a worker of another version; a pod without a node has no cache."""
    nodes = CachingNodes()
    nodes.add(VersionId("next@0"), pod("a"))
    nodes.add(VersionId("next@0"), pod(""))
    assert (preferred(nodes, "next@0"), preferred(nodes)) == (["a"], [])


def test_few_nodes_are_named() -> None:
    """A version that ran everywhere names the latest nodes alone, one in each term as the API wants it."""
    nodes = CachingNodes()
    for number in range(100):
        nodes.note(pod(str(number)))
    assert preferred(nodes) == [str(number) for number in range(99, 99 - MOST_NODES, -1)]
    terms = nodes.preferred(CHAT)["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert {len(term["preference"]["matchFields"][0]["values"]) for term in terms} == {1}
