"""The second opinion: the real AWS provider plans the graph, checkov reviews the plan, moto takes an apply."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from infra.graph.captured import Capture
from infra.graph.nodes import Graph
from infra.graph.values import Json, items, mapping, number, text
from infra.review import mapper, schema
from infra.review.terraform import Terraform, TerraformFailedError, missing
from tests.infra.edits import Spoil, put

ROOT = Path(__file__).resolve().parents[2]
REVIEW = ROOT / "infra/review"
CHECKOV = ROOT / ".venv-review/bin/checkov"
MIN_PASSED = 800
HOME = "us-east-1"
NOWHERE = "http://127.0.0.1:9"
NEWER_THAN_PROVIDER = {("aws_eks_node_group", "warm_pool_config"), ("aws_eks_cluster", "deletion_protection")}
"""Properties newer than the provider on hand; each has an invariant (`warm-pool`, `cluster-guarded`)."""

needs_terraform = pytest.mark.skipif(bool(missing()), reason=missing() or "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """An initialised working folder and the provider's schema."""

    terraform: Terraform
    types: dict[str, schema.Block]
    provider: schema.Block

    def write(
        self, graphs: dict[str, Graph], endpoint: str = NOWHERE, leave_out: tuple[str, ...] = ()
    ) -> mapper.Translation:
        translation = mapper.translate(graphs, self.types, leave_out)
        self.terraform.write(translation.document, ["us-east-1", "us-west-2"], self.provider, endpoint)
        return translation


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    terraform = Terraform(folder=tmp_path_factory.mktemp("terraform"))
    terraform.init()
    types, provider = schema.read(terraform.schema())
    return Bench(terraform=terraform, types=types, provider=provider)


@pytest.fixture(scope="module")
def graphs(captures: tuple[Capture, ...]) -> dict[str, Graph]:
    """Return every stack that holds AWS resources, by a name Terraform takes."""
    return {item.label.replace("-", "_"): item.graph for item in captures if item.kind in ("global", "region", "mesh")}


@pytest.fixture(scope="module")
def plan(bench: Bench, graphs: dict[str, Graph]) -> Json:
    """Return the plan of all AWS resources of all stacks."""
    bench.write(graphs)
    return bench.terraform.plan()  # which validates first


def size(translation: mapper.Translation) -> int:
    return sum(
        len(mapping(translation.document, f"resource.{kind}")) for kind in mapping(translation.document, "resource")
    )


@needs_terraform
def test_every_aws_resource_is_translated(bench: Bench, graphs: dict[str, Graph]) -> None:
    """No AWS resource is left behind, and no property is unknown but the ones that are newer than the provider."""
    translation = bench.write(graphs)
    made = size(translation)
    wanted = [node for graph in graphs.values() for node in graph.resources() if node.type.startswith("aws:")]
    assert made == len(wanted)
    assert translation.unknown == NEWER_THAN_PROVIDER


@needs_terraform
def test_the_real_provider_plans_everything(plan: Json, graphs: dict[str, Graph]) -> None:
    """The provider accepts every argument, and plans to create every resource and to change nothing else."""
    actions = [items(change, "change.actions") for change in items(plan, "resource_changes")]
    wanted = sum(1 for graph in graphs.values() for node in graph.resources() if node.type.startswith("aws:"))
    assert actions == [["create"]] * wanted


NONSENSE: dict[str, tuple[tuple[Spoil, str], ...]] = {
    "region_us_east_1": (
        (put("Subnet", "data-use1-az2", "cidrBlock", "10.16.192.1/24"), "cidr"),
        (put("Key", "logs-us-east-1", "deletionWindowInDays", 3), "deletion_window_in_days"),
    ),
    "region_us_west_2": (
        (put("NodeGroup", "cpu-usw2-az1", "amiType", "AL1_x86_64"), "ami_type"),
        (put("NodeGroup", "l40s-base-usw2-az1", "taints/0/effect", "NoSchedule"), "effect"),
        (put("Cluster", "penstock", "engine", "aurora-postgres"), "engine"),
    ),
}
"""Values that AWS would refuse, and the argument the provider names. What depends on a refused resource is not looked
at any more, so one region's foundations are spoiled, and in the other region what stands on them."""


@needs_terraform
def test_the_provider_refuses_nonsense(bench: Bench, graphs: dict[str, Graph], plan: Json) -> None:
    """Values that AWS would refuse are each refused by validation, with the argument's name."""
    assert plan
    spoiled = {name: graphs[name] for name in NONSENSE}
    for name, faults in NONSENSE.items():
        for spoil, _ in faults:
            spoiled[name] = spoil(spoiled[name])
    bench.write(spoiled)
    with pytest.raises(TerraformFailedError) as refused:
        bench.terraform.validate()
    told = str(refused.value).lower()
    assert [named for faults in NONSENSE.values() for _, named in faults if named not in told] == []


@needs_terraform
@pytest.mark.skipif(not CHECKOV.exists(), reason="no .venv-review: make infra-setup")
def test_the_reviewer_finds_only_what_we_declined(bench: Bench, plan: Json, tmp_path: Path) -> None:
    """Checkov over the plan fails exactly the checks that the skip list declines with a reason."""
    assert items(plan, "resource_changes")
    shutil.copy(bench.terraform.folder / "plan.json", tmp_path)
    command = [
        str(CHECKOV),
        "-f",
        "plan.json",
        "--framework",
        "terraform_plan",
        "--output",
        "json",
        "--quiet",
        "--compact",
    ]
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(
        [*command, "--skip-download"], cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
    )
    report: Json = json.loads(done.stdout)
    declined: dict[str, str] = yaml.safe_load((REVIEW / "skips.yaml").read_text(encoding="utf-8"))
    failed = {text(check, "check_id") for check in items(report, "results.failed_checks")}
    assert failed == set(declined)
    assert number(report, "summary.passed") > MIN_PASSED
    assert all(len(reason) > 20 for reason in declined.values())


@pytest.fixture
def mock_cloud() -> Iterator[str]:
    """Start a mock cloud that knows AWS's managed policies, and return its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "MOTO_IAM_LOAD_MANAGED_POLICIES": "true", "MOTO_ACCOUNT_ID": "111122223333"}
    command = [sys.executable, "-m", "moto.server", "-p", str(port)]
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    for _ in range(100):
        try:
            urllib.request.urlopen(f"{address}/moto-api/data.json", timeout=5).close()
            break
        except OSError:
            time.sleep(0.2)
    yield address
    server.terminate()
    server.wait(timeout=10)


@needs_terraform
@pytest.mark.slow
def test_what_the_mock_cloud_serves_is_created(bench: Bench, graphs: dict[str, Graph], mock_cloud: str) -> None:
    """The primary region's network, stores, keys and identities are really created by the provider."""
    served = set(yaml.safe_load((REVIEW / "served.yaml").read_text(encoding="utf-8")))
    wanted = {
        label: replace(graph, nodes=tuple(node for node in graph.nodes if node.type in served and node.region == HOME))
        for label, graph in graphs.items()
        if label in ("global", "region_us_east_1")
    }
    translation = bench.write(wanted, endpoint=mock_cloud)
    count = size(translation)
    assert f"{count} added, 0 changed, 0 destroyed" in bench.terraform.apply()
