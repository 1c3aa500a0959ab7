"""Selects a version's pools: those with the smallest device that holds a worker of it. Pure.

Trade-off: a small model never uses an expensive GPU while its own kind is full; its queue shows the wait. Pools of one
kind are filled in the shipped order: on-demand machines first, then interruptible ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.connectors.kubernetes.pools import Pool, Size
from penstock.domain.fleet.versions import Served

USABLE_RATIO = 0.9
"""The part of a device's memory that the engine uses by default; the rest is for driver and other processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    served: Served
    pool: Pool
    size: Size
    least: int


def place(served: Served, pools: tuple[Pool, ...]) -> tuple[Placed, ...]:
    """Return the pools for a version in filling order; empty if no device holds a worker of it."""
    fitting = [(pool, size) for pool in pools for size in pool.sizes if _fits(served, pool, size)]
    smallest = min((pool.device_bytes for pool, _ in fitting), default=0)
    return tuple(_filled(served, [one for one in fitting if one[0].device_bytes == smallest]))


def why_nowhere(served: Served, pools: tuple[Pool, ...]) -> str:
    sizes = sorted({size.gpus for pool in pools for size in pool.sizes})
    if served.gpus not in sizes:
        counts = ", ".join(map(str, sizes))
        return f"{served.version} needs {served.gpus} GPUs in one node; pools offer {counts}: push it with one of these"
    most = max(pool.device_bytes for pool in pools) * USABLE_RATIO * served.gpus
    needs, holds = served.held_bytes / 2**30, most / 2**30
    return f"{served.version} needs {needs:.0f} GiB on {served.gpus} GPUs, at most {holds:.0f} are there: use more GPUs"


def _fits(served: Served, pool: Pool, size: Size) -> bool:
    holds = pool.device_bytes * served.gpus * USABLE_RATIO
    return size.gpus == served.gpus and size.most > 0 and served.held_bytes <= holds


def _filled(served: Served, fitting: list[tuple[Pool, Size]]) -> Iterator[Placed]:
    """Distribute the minimum over uninterruptible pools; without any, over spot pools."""
    steady = any(not pool.is_spot for pool, _ in fitting)
    missing = served.least
    for pool, size in fitting:
        least = 0 if pool.is_spot and steady else min(missing, size.most)
        yield Placed(served=served, pool=pool, size=size, least=least)
        missing -= least
