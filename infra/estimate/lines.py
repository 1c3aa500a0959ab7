"""From a captured graph to priced lines. Pools are priced at the size they keep; the maximum is shown beside it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypedDict

import yaml

from infra.catalogue.instances import instances, sources
from infra.components.labels import POOL
from infra.components.pools import disk_speed
from infra.config.kinds import Capacity, WarmState
from infra.config.model import Region
from infra.config.pools import Pool
from infra.graph.nodes import Graph, Node
from infra.graph.values import items, mapping, number, text

HOURS = 730
_FILE = Path(__file__).resolve().parent.parent / "catalogue" / "prices.yaml"


class _Row(TypedDict, total=False):
    usd: float
    unit: str
    source: str


class _Group(TypedDict, total=False):
    gb: float
    gb_a_machine: float
    gb_of_traffic: float
    source: str


class _Prices(TypedDict):
    read: str
    rows: dict[str, _Row]
    databases: dict[str, _Row]
    volumes: dict[str, _Row]
    blocks: dict[str, _Row]
    logs: dict[str, _Row]
    groups: dict[str, _Group]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One priced thing: at the size it keeps, at the size that is planned for, at its maximum."""

    what: str
    usd: float
    likely_usd: float
    most_usd: float
    source: str


@cache
def prices() -> _Prices:
    """The price table."""
    table: _Prices = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return table


def lines(graph: Graph, region: Region | None) -> Iterator[Line]:
    """Every resource that costs by existing, and logs. Other usage (requests, traffic, stored data) is not in it."""
    for node in graph.resources():
        row = prices()["rows"].get(node.type)
        if row is not None:
            yield _plain(node, row)
        elif node.type == "aws:eks/nodeGroup:NodeGroup" and region is not None:
            yield _pool(node, region.pool(str(mapping(node.inputs, "labels").get(POOL))))
        elif node.type.startswith("kubernetes:karpenter.sh/") and region is not None:
            yield _burst(region.pool(text(node.inputs, "metadata.name")))
        elif node.type == "aws:rds/clusterInstance:ClusterInstance":
            yield _hourly(node.name, text(node.inputs, "instanceClass"), 1)
        elif node.type == "aws:cloudwatch/logGroup:LogGroup":
            yield _log(node, region)
        elif node.type == "aws:elasticache/replicationGroup:ReplicationGroup":
            yield _hourly(node.name, text(node.inputs, "nodeType"), number(node.inputs, "numCacheClusters"))


def _plain(node: Node, row: _Row) -> Line:
    times = {"hour": float(HOURS), "month": 1.0, "hour-per-zone": HOURS * len(items(node.inputs, "subnetIds"))}
    usd = row["usd"] * times[row["unit"]]
    return Line(
        what=f"{node.type.rsplit(':', maxsplit=1)[-1]} {node.name}",
        usd=usd,
        likely_usd=usd,
        most_usd=usd,
        source=row["source"],
    )


def _hourly(name: str, kind: str, count: float) -> Line:
    row = prices()["databases"][kind]
    usd = row["usd"] * HOURS * count
    return Line(what=f"{kind} {name}", usd=usd, likely_usd=usd, most_usd=usd, source=row["source"])


def _log(node: Node, region: Region | None) -> Line:
    """Return the month of a log group at its full age: ingestion, and storage of the whole retention."""
    rows, held = prices()["logs"], prices()["groups"]
    name = next(one for one in held if node.name.removeprefix("containers-").startswith(one))
    months = number(node.inputs, "retentionInDays") * 24 / HOURS
    each = rows["ingested"]["usd"] + rows["kept"]["usd"] * rows["compressed_ratio"]["usd"] * months
    group, pools = held[name], region.pools if region else ()
    base, machine, traffic = group.get("gb", 0.0), group.get("gb_a_machine", 0.0), group.get("gb_of_traffic", 0.0)
    kept = sum(pool.max_size if pool.reservation else pool.min_size for pool in pools)
    likely, most = sum(pool.likely for pool in pools), sum(pool.max_size for pool in pools)
    return Line(
        what=f"log {node.name}, {text(node.inputs, 'retentionInDays')} days",
        usd=each * (base + machine * kept),
        likely_usd=each * (base + machine * likely + traffic),
        most_usd=each * (base + machine * most + traffic),
        source=f"{rows['ingested']['source']}; {group['source']}",
    )


def _pool(node: Node, pool: Pool) -> Line:
    """Paid capacity costs in full whether used or not; a warm pool costs disks, or machines while it runs."""
    machine = instances()[pool.instance_types[0]]
    most = number(node.inputs, "scalingConfig.maxSize")
    paid = pool.capacity in (Capacity.RESERVED, Capacity.CAPACITY_BLOCK)
    kept = most if paid else number(node.inputs, "scalingConfig.minSize")
    likely = pool.likely * most / pool.max_size  # the group's share of its pool
    hourly, source = machine.usd_per_h, sources()["price"]
    if pool.capacity is Capacity.CAPACITY_BLOCK:
        hourly, source = prices()["blocks"][machine.name]["usd"], prices()["blocks"][machine.name]["source"]
    each = hourly * HOURS + _disk(pool.disk_gib)
    running = pool.warm_pool is not None and pool.warm_pool.state is WarmState.RUNNING
    waits = each if running else _disk(pool.disk_gib)
    what = f"pool {node.name}: {kept:g} to {most:g} x {machine.name} ({pool.capacity})"
    usd, likely_usd, most_usd = (size * each + _waiting(node, size) * waits for size in (kept, likely, most))
    return Line(what=what, usd=usd, likely_usd=likely_usd, most_usd=most_usd, source=source)


def _waiting(node: Node, size: float) -> float:
    """Return how many machines wait beside so many: EC2 fills up to the prepared capacity, and keeps the minimum.

    https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-warm-pools.html
    """
    prepared = number(node.inputs, "warmPoolConfig.maxGroupPreparedCapacity")
    return max(number(node.inputs, "warmPoolConfig.minSize"), prepared - size)


def _disk(gib: int) -> float:
    """The month of a node's disk, with what it has above 3,000 IOPS and 125 MB/s."""
    (iops, mbps), rows = disk_speed(gib), prices()["volumes"]
    extra = rows["gp3-iops"]["usd"] * (iops - 3000) + rows["gp3-throughput"]["usd"] * (mbps - 125)
    return rows["gp3"]["usd"] * gib + extra


def _burst(pool: Pool) -> Line:
    """Nothing while idle. Spot never costs more than on demand; likely machines are the smallest type."""
    hourly = sorted(instances()[name].usd_per_h for name in pool.instance_types)
    likely, most = (usd * HOURS + _disk(pool.disk_gib) for usd in (hourly[0], hourly[-1]))
    what = f"pool {pool.name}: 0 to {pool.max_size} x {pool.instance_types[-1]} at most ({pool.capacity})"
    return Line(
        what=what,
        usd=0.0,
        likely_usd=pool.likely * likely,
        most_usd=pool.max_size * most,
        source=sources()["price"],
    )
