"""From a captured graph to priced lines. Pools are priced at the size they keep; the maximum is shown beside it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypedDict

import yaml

from infra.catalogue.instances import instances, sources
from infra.components.labels import POOL
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


class _Prices(TypedDict):
    read: str
    rows: dict[str, _Row]
    databases: dict[str, _Row]
    volumes: dict[str, _Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One priced thing. `most_usd` is what it costs at its maximum; equal to `usd` if it has none."""

    what: str
    usd: float
    most_usd: float
    source: str


@cache
def prices() -> _Prices:
    """The price table."""
    table: _Prices = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return table


def lines(graph: Graph, region: Region | None) -> Iterator[Line]:
    """Every resource that costs by existing. Usage (requests, traffic, storage of data) is not in it."""
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
        elif node.type == "aws:elasticache/replicationGroup:ReplicationGroup":
            yield _hourly(node.name, text(node.inputs, "nodeType"), number(node.inputs, "numCacheClusters"))


def _plain(node: Node, row: _Row) -> Line:
    times = {"hour": float(HOURS), "month": 1.0, "hour-per-zone": HOURS * len(items(node.inputs, "subnetIds"))}
    usd = row["usd"] * times[row["unit"]]
    return Line(
        what=f"{node.type.rsplit(':', maxsplit=1)[-1]} {node.name}", usd=usd, most_usd=usd, source=row["source"]
    )


def _hourly(name: str, kind: str, count: float) -> Line:
    row = prices()["databases"][kind]
    usd = row["usd"] * HOURS * count
    return Line(what=f"{kind} {name}", usd=usd, most_usd=usd, source=row["source"])


def _pool(node: Node, pool: Pool) -> Line:
    """Paid capacity costs in full whether used or not; a warm pool costs disks, or machines while it runs."""
    machine = instances()[pool.instance_types[0]]
    most = number(node.inputs, "scalingConfig.maxSize")
    paid = pool.capacity in (Capacity.RESERVED, Capacity.CAPACITY_BLOCK)
    kept = most if paid else number(node.inputs, "scalingConfig.minSize")
    disk = prices()["volumes"]["gp3"]["usd"] * pool.disk_gib
    each = machine.usd_per_h * HOURS + disk
    running = pool.warm_pool is not None and pool.warm_pool.state is WarmState.RUNNING
    waiting = number(node.inputs, "warmPoolConfig.minSize") * (each if running else disk)
    what = f"pool {node.name}: {kept:g} to {most:g} x {machine.name} ({pool.capacity})"
    return Line(what=what, usd=kept * each + waiting, most_usd=most * each + waiting, source=sources()["price"])


def _burst(pool: Pool) -> Line:
    """Nothing while idle. At its maximum: the dearest type at the on-demand price, which spot never exceeds."""
    dearest = max((instances()[name] for name in pool.instance_types), key=lambda item: item.usd_per_h)
    disk = prices()["volumes"]["gp3"]["usd"] * pool.disk_gib
    most = pool.max_size * (dearest.usd_per_h * HOURS + disk)
    what = f"pool {pool.name}: 0 to {pool.max_size} x {dearest.name} at most ({pool.capacity})"
    return Line(what=what, usd=0.0, most_usd=most, source=sources()["price"])
