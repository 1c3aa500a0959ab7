"""Bad config is refused before any resource exists, with the key and the remedy."""

from pathlib import Path

import pytest

from infra.config.load import load
from infra.config.problems import ConfigRefusedError

EAST, WEST, WHOLE = "us-east-1.yaml", "us-west-2.yaml", "environment.yaml"
BASE_WARM = "warm_pool: {min_size: 3, max_prepared: 9, state: STOPPED, reuse_on_scale_in: true}"
SPOT_TYPES = "[g6e.xlarge, g6e.2xlarge, g6e.4xlarge, g6e.8xlarge, g6e.16xlarge]"
WORKER_DIGEST = '"sha256:3333333333333333333333333333333333333333333333333333333333333333"'


def spoil(folder: Path, file: str, old: str, new: str) -> None:
    path = folder / "prod" / file
    content = path.read_text(encoding="utf-8")
    assert old in content, f"the shipped config no longer holds {old!r}"
    path.write_text(content.replace(old, new, 1), encoding="utf-8")


def test_the_shipped_config_is_accepted() -> None:
    """The shipped environment loads with its two regions."""
    assert [region.name for region in load("prod").regions] == ["us-east-1", "us-west-2"]


@pytest.mark.parametrize(
    ("file", "old", "new", "key", "remedy"),
    [
        (WEST, "cidr: 10.32.0.0/16", "cidr: 10.16.0.0/16", "us-west-2.cidr", "choose a block"),
        (WEST, "cidr: 10.32.0.0/16", "cidr: 10.32.5.0/16", "us-west-2.cidr", "private /16"),
        (EAST, "cidr: 10.16.0.0/16", "cidr: 11.0.0.0/16", "us-east-1.cidr", "private /16"),
        (
            EAST,
            "zone_ids: [use1-az2, use1-az4, use1-az6]",
            "zone_ids: [use1-az2, use1-az4]",
            "us-east-1.zone_ids",
            "three",
        ),
        (EAST, "zone_ids: [use1-az2,", "zone_ids: [usw2-az2,", "us-east-1.zone_ids", "start with use1-az"),
        (EAST, "use1-az4, use1-az6]", "use1-az4, use1-az3]", "us-east-1.zone_ids", "another zone"),
        (WEST, "cr-0d1e2f30415263748", "cr-0b1c2d3e4f5061728", "h100-block).reservation.id", "bought here"),
        (
            WHOLE,
            "regions: [",
            "account_has: [ec2.amazonaws.com]\nregions: [",
            "environment.account_has",
            "name of auto",
        ),
        (WHOLE, "min_replicas: 2, max_replicas: 2", "min_replicas: 2, max_replicas: 4", "controller", "the same"),
        (EAST, "name: us-east-1", "name: eu-south-9", "eu-south-9", "rules_network"),
        (
            EAST,
            "instance_types: [p4d.24xlarge]",
            "instance_types: [g6.xlarge]",
            "mig",
            "use whole GPUs or a p4d/p5 type",
        ),
        (EAST, "mig: {3g.20gb: 2}", "mig: {3g.20gb: 3}", "mig", "correct the layout"),
        (EAST, "mig: {3g.20gb: 2}", "mig: {3g.20gb: 2, 2g.10gb: 1}", "mig", "correct the layout"),
        (EAST, "mig: {3g.20gb: 2}", "mig: {3g.21gb: 2}", "mig", "correct the layout"),
        (
            EAST,
            f"instance_types: {SPOT_TYPES}",
            f"instance_types: {SPOT_TYPES}\n    {BASE_WARM}",
            "warm_pool",
            "on-demand, of one type, under `asg`",
        ),
        (EAST, "min_size: 3, max_prepared: 9", "min_size: 1, max_prepared: 9", "warm_pool.min_size", "at least 10 %"),
        (EAST, "max_prepared: 9", "max_prepared: 13", "warm_pool.max_prepared", "between 6 and 12"),
        (EAST, "min_size: 3\n    max_size: 9", "min_size: 2\n    max_size: 2", "max_size", "fewer `zone_ids`"),
        (EAST, SPOT_TYPES, "[g6e.xlarge]", "instance_types", "at least 4"),
        (EAST, SPOT_TYPES, "[g6e.xlarge, g5.xlarge, g5.2xlarge, g6.xlarge]", "instance_types", "split the pool"),
        (WEST, "[g6e.2xlarge]\n    min_size: 3", "[g7e.2xlarge]\n    min_size: 3", "instance_types", "zones"),
        (
            EAST,
            "[p5.48xlarge]\n    min_size: 0",
            "[p5.48xlarge]\n    zone_ids: [use1-az5]\n    min_size: 0",
            "zone_ids",
            "use zones among",
        ),
        (EAST, "instance_types: [p5.48xlarge]", "instance_types: [p9.48xlarge]", "instance_types", "catalogue"),
        (EAST, "capacity: capacity-block", "capacity: on-demand", "reservation", "to no others"),
        (EAST, 'zone_id: use1-az4, expires: "2027', 'zone_id: use1-az1, expires: "2027', "reservation.zone_id", "zone"),
        (EAST, "efa: true", "efa: true\n    role: cpu", "image", "*_NVIDIA"),
        (EAST, "instance_types: [g6e.2xlarge]", "efa: true\n    instance_types: [g6e.2xlarge]", "efa", "efa: false"),
        (EAST, "name: l40s-burst", "name: l40s-base", "us-east-1.pools", "its own name"),
        (EAST, "g: 384", "g: 100", "quotas_vcpu.g", "lower a max_size"),
        (EAST, "cidr: 10.16.0.0/16\n", "", "us-east-1.cidr", "add `cidr:`"),
        (EAST, "cidr: 10.16.0.0/16", "cdir: 10.16.0.0/16", "us-east-1.cdir", "remove it or use one of"),
        (EAST, "capacity: capacity-block", "capacity: free", "capacity", "use one of: on-demand"),
        (EAST, "disk_gib: 100", 'disk_gib: "100"', "disk_gib", "give an int"),
        (WHOLE, "domain: inference.example.com\n", "", "environment.domain", "add `domain:`"),
        (WHOLE, "repository: penstock/worker", "repository: penstock/worker:latest", "images.worker", "pin `digest`"),
        (WHOLE, WORKER_DIGEST, "latest", "images.worker.digest", "sha256:<64 hex>"),
        (WHOLE, 'account_id: "111122223333"', 'account_id: "42"', "account_id", "12 digits"),
        (WHOLE, "audit_days: 400", "audit_days: 30", "retention.audit_days", "365"),
        (WHOLE, "backup_days: 35", "backup_days: 7", "retention.backup_days", "35"),
        (WHOLE, 'version: "1.35"', 'version: "1.29"', "kubernetes.version", "1.35"),
        (WHOLE, "    coredns: v1.12.4-eksbuild.1\n", "", "kubernetes.addons.coredns", "pin"),
        (WHOLE, "version: 2.19.0", 'version: "^2.19"', "charts.keda.version", "exact"),
        (WHOLE, "allowed_networks: [10.0.0.0/13]", "allowed_networks: [0.0.0.0/0]", "allowed_networks", "private"),
        (WHOLE, "organization: penstock", "organization: Penstock", "environment.organization", "small letters"),
        (WHOLE, "organization: penstock", "organization: pen--stock", "environment.organization", "small letters"),
        (WHOLE, "name: prod", "name: prod_eu", "environment.name", "small letters"),
        (WHOLE, "organization: penstock", "organization: penstock-platform", "environment.organization", "within 15"),
        (WHOLE, "regions: [us-east-1, us-west-2]", "regions: [us-east-1, eu-west-1]", "eu-west-1.yaml", "write it"),
        (EAST, "capacity: reserved\n", "capacity: spot\n", "us-east-1.pools(a100-mig)", "on-demand or paid pool"),
    ],
)
def test_bad_config_is_refused(environments: Path, file: str, old: str, new: str, key: str, remedy: str) -> None:
    """A fault in the config names its key and says what to do instead."""
    spoil(environments, file, old, new)
    with pytest.raises(ConfigRefusedError) as refused:
        load("prod", environments)
    told = [str(problem) for problem in refused.value.problems]
    assert any(key in line.split(": ")[0] and remedy in line for line in told), told


def test_every_fault_is_told_at_once(environments: Path) -> None:
    """Two unrelated faults are both reported in one refusal."""
    spoil(environments, WHOLE, "audit_days: 400", "audit_days: 30")
    spoil(environments, WEST, "cidr: 10.32.0.0/16", "cidr: 10.16.0.0/16")
    with pytest.raises(ConfigRefusedError, match=r"(?s)audit_days.*us-west-2\.cidr"):
        load("prod", environments)


def test_a_third_region_is_a_file(environments: Path) -> None:
    """Adding a region takes a line in the environment and a file of its own."""
    spoil(environments, WHOLE, "regions: [us-east-1, us-west-2]", "regions: [us-east-1, us-west-2, us-east-2]")
    west = (environments / "prod" / WEST).read_text(encoding="utf-8")
    third = west.replace("us-west-2", "us-east-2").replace("usw2-az", "use2-az").replace("10.32.", "10.48.")
    (environments / "prod/us-east-2.yaml").write_text(third, encoding="utf-8")
    with pytest.raises(ConfigRefusedError, match="is known to offer") as refused:
        load("prod", environments)
    assert all("us-east-2" in problem.key for problem in refused.value.problems if "zone" in problem.fault)
