"""Halves that no walk over the graph crosses: an image's user and a daemon, two stores, a page and the tree."""

import re
from pathlib import Path
from urllib.parse import urlsplit

from infra.graph.captured import Capture
from infra.graph.nodes import Node
from infra.graph.values import items, text
from infra.policy.view import pod_spec

ROOT = Path(__file__).resolve().parents[2]
EAST, SERVING, PLATFORM = "region-us-east-1", "serving-us-east-1", "platform-us-east-1"


def one(by_label: dict[str, Capture], label: str, kind: str, name: str = "") -> Node:
    nodes = by_label[label].graph.nodes
    return next(node for node in nodes if node.type.endswith(f":{kind}") and name in ("", node.name))


def test_workers_may_write_what_is_prepared_for_them(
    by_label: dict[str, Capture], clusters: tuple[Capture, ...]
) -> None:
    """The weight cache belongs to the user that the image names and that workers run as."""
    (user,) = re.findall(r"^USER (\d+):\d+$", (ROOT / "platform/images/Dockerfile").read_text(), re.MULTILINE)
    daemon = one(by_label, PLATFORM, "DaemonSet")
    owner = re.search(r"chown (\d+):(\d+)", str(items(daemon.inputs, "spec.template.spec.containers.0.command")))
    assert owner
    assert set(owner.groups()) == {user}
    kinds = ("kubernetes:apps/v1:Deployment", "kubernetes:apps/v1:StatefulSet")
    pods = [pod_spec(node) for item in clusters if item.label == SERVING for node in item.graph.of(*kinds)]
    assert {text(pod, "securityContext.runAsUser") for pod in pods} == {user}


def test_kept_answers_never_stand_in_the_way_of_limits(by_label: dict[str, Capture]) -> None:
    """ADR 0063: answers lie in a store of their own with its own token, and neither store evicts what it was given."""
    versions = {node.name: node for node in by_label[EAST].graph.of("aws:secretsmanager/secretVersion:SecretVersion")}
    groups = {node.urn: node for node in by_label[EAST].graph.of("aws:elasticache/replicationGroup:ReplicationGroup")}
    told = [text(versions[f"{store}-url"].inputs, "secretString") for store in ("limits", "answers")]
    assert len({urlsplit(url).hostname for url in told}) == len(groups) == 2
    assert {urlsplit(url).scheme for url in told} == {"rediss"}
    assert len({text(versions[f"{store}-password"].inputs, "secretString") for store in ("limits", "answers")}) == 2
    for node in by_label[EAST].graph.of("aws:elasticache/parameterGroup:ParameterGroup"):
        assert [text(one, "value") for one in items(node.inputs, "parameters")] == ["noeviction"]
    assert {text(node.inputs, "parameterGroupName") for node in groups.values()} == {
        text(node.outputs, "name") for node in by_label[EAST].graph.of("aws:elasticache/parameterGroup:ParameterGroup")
    }


def test_the_page_names_what_there_is() -> None:
    """Each make target and each folder or file that the README names is there."""
    page = (ROOT / "infra/README.md").read_text(encoding="utf-8")
    targets = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("infra/infra.mk", "Makefile"))
    for target in set(re.findall(r"`make ([a-z-]+)`", page)):
        assert re.search(rf"^{target}:", targets, re.MULTILINE), target
    for path in set(re.findall(r"`((?:environments|projects|catalogue|review|docs|policy|capture)/[\w./-]*)`", page)):
        assert "ENV" in path or (ROOT / "infra" / path).exists(), path
