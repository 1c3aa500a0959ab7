"""What a pool may be: types that exist where it stands, one way of buying, cuts its GPUs allow.

Trade-off: the rules refuse some things AWS may accept (a warm pool with several types), because the
documents disagree and a refusal here costs a minute while a failed scale-out costs an incident.
"""

from collections import Counter
from collections.abc import Iterator

from infra.catalogue.instances import Instance, instances
from infra.catalogue.mig import misfit
from infra.config.kinds import Capacity, Scaler, WarmState
from infra.config.model import Fleet, Region
from infra.config.pools import Pool
from infra.config.problems import Problem
from infra.config.zones import pool_zones

MIN_SPOT_TYPES = 4
MIN_WARM_RATIO = 0.10
PAID_AHEAD = (Capacity.RESERVED, Capacity.CAPACITY_BLOCK)


def judge_pools(fleet: Fleet) -> list[Problem]:
    """Faults in every region's pools and in the quotas they need."""
    problems = []
    for region in fleet.regions:
        for index, pool in enumerate(region.pools):
            key = f"{region.name}.pools[{index}]({pool.name})"
            unknown = [name for name in pool.instance_types if name not in instances()]
            if unknown:
                problems.append(_unknown(key, unknown))
                continue
            problems += _judge_pool(region, pool, key)
        problems += [*_duplicates(region), *_floor(region), *_quotas(region)]
    return [*problems, *_reserved_once(fleet)]


def _judge_pool(region: Region, pool: Pool, key: str) -> list[Problem]:
    return [
        *_machines(pool, key),
        *_where(region, pool, key),
        *_bought(region, pool, key),
        *_warm(pool, key),
        *_cut(pool, key),
    ]


def _unknown(key: str, names: list[str]) -> Problem:
    return Problem(
        key=f"{key}.instance_types",
        fault=f"{', '.join(names)} is not in the catalogue",
        remedy="correct it, or add the type to catalogue/instances.yaml with its source",
    )


def _machines(pool: Pool, key: str) -> Iterator[Problem]:
    types = _types(pool)
    if not 0 <= pool.min_size <= pool.max_size or pool.max_size == 0:
        yield Problem(
            key=f"{key}.max_size", fault=f"min {pool.min_size}, max {pool.max_size}", remedy="keep 0 <= min <= max"
        )
    if not pool.min_size <= pool.likely <= pool.max_size:
        yield Problem(
            key=f"{key}.likely_size", fault=f"is {pool.likely}", remedy=f"keep it in {pool.min_size}..{pool.max_size}"
        )
    if pool.gpu != pool.image.for_gpu or any((item.gpus > 0) != pool.gpu for item in types):
        yield Problem(
            key=f"{key}.image",
            fault=f"{pool.image} does not fit {', '.join(pool.instance_types)} in role {pool.role}",
            remedy="give GPU types an *_NVIDIA image and CPU types a plain one",
        )
    if len({(item.gpu, item.gpu_memory_mib) for item in types}) > 1:
        yield Problem(
            key=f"{key}.instance_types",
            fault="mixes GPU models",
            remedy="split the pool: a replica's throughput and memory plan hold for one GPU model",
        )
    if pool.efa and not all(item.efa for item in types):
        yield Problem(key=f"{key}.efa", fault="is on, the type has no EFA", remedy="set `efa: false` or take p4d/p5")


def _where(region: Region, pool: Pool, key: str) -> Iterator[Problem]:
    for zone in pool.zone_ids:
        lacking = [item.name for item in _types(pool) if not item.in_zone(region.name, zone)]
        if zone not in region.zone_ids or lacking:
            yield Problem(
                key=f"{key}.zone_ids",
                fault=f"{zone} does not offer {', '.join(lacking) or 'a subnet of this region'}",
                remedy=f"use zones among {', '.join(pool_zones(region, pool)) or 'none: choose another type'}",
            )
    zones = pool_zones(region, pool)
    if pool.scaler is Scaler.ASG and pool.max_size < len(zones):
        yield Problem(
            key=f"{key}.max_size",
            fault=f"is {pool.max_size} for {len(zones)} zones, each of which has a group",
            remedy="raise it, or name fewer `zone_ids`",
        )
    if not zones:
        yield Problem(
            key=f"{key}.instance_types",
            fault=f"no zone of {region.name} is known to offer all of them",
            remedy="choose other types, or add the zones that were read to catalogue/instances.yaml",
        )


def _bought(region: Region, pool: Pool, key: str) -> Iterator[Problem]:
    if (pool.reservation is not None) != (pool.capacity in PAID_AHEAD):
        yield Problem(
            key=f"{key}.reservation",
            fault=f"does not go with capacity {pool.capacity}",
            remedy="give a reservation to `reserved` and `capacity-block` pools and to no others",
        )
    if pool.reservation and (pool.min_size > 0 or pool.scaler is not Scaler.ASG):
        yield Problem(
            key=f"{key}.min_size", fault="holds nodes before the reservation starts", remedy="min_size 0, scaler asg"
        )
    if pool.reservation and pool.reservation.zone_id not in region.zone_ids:
        yield Problem(
            key=f"{key}.reservation.zone_id",
            fault=f"{pool.reservation.zone_id} is not a zone of {region.name}",
            remedy=f"add the zone to {region.name}.zone_ids, or buy the capacity in one of them",
        )
    if pool.capacity is Capacity.CAPACITY_BLOCK and any(item.quota != "p" for item in _types(pool)):
        yield Problem(
            key=f"{key}.capacity", fault="capacity blocks are for P types", remedy="use `reserved` for G types"
        )
    if pool.capacity is Capacity.SPOT and len(pool.instance_types) < MIN_SPOT_TYPES:
        yield Problem(
            key=f"{key}.instance_types",
            fault=f"has {len(pool.instance_types)} types on spot",
            remedy=f"give at least {MIN_SPOT_TYPES} of the same GPU, so that one reclaimed pool is not the end",
        )
    if pool.gpu and pool.capacity is Capacity.SPOT and pool.scaler is not Scaler.KARPENTER:
        yield Problem(
            key=f"{key}.scaler", fault="spot on an ASG", remedy="use `karpenter`, which replaces reclaimed nodes"
        )


def _warm(pool: Pool, key: str) -> Iterator[Problem]:
    warm = pool.warm_pool
    if warm is None:
        return
    if pool.capacity is not Capacity.ON_DEMAND or len(pool.instance_types) != 1 or pool.scaler is not Scaler.ASG:
        yield Problem(
            key=f"{key}.warm_pool",
            fault=f"on a {pool.capacity} pool of {len(pool.instance_types)} type(s) under {pool.scaler}",
            remedy="remove it, or make the pool on-demand, of one type, under `asg`",
        )
    if warm.min_size < MIN_WARM_RATIO * pool.max_size:
        yield Problem(
            key=f"{key}.warm_pool.min_size", fault=f"is {warm.min_size}", remedy="hold at least 10 % of max_size"
        )
    if not pool.min_size + warm.min_size <= warm.max_prepared <= pool.max_size:
        yield Problem(
            key=f"{key}.warm_pool.max_prepared",
            fault=f"is {warm.max_prepared}",
            remedy=f"keep it between {pool.min_size + warm.min_size} and {pool.max_size}",
        )
    if pool.image.bottlerocket and (warm.state is WarmState.HIBERNATED or warm.reuse_on_scale_in):
        yield Problem(
            key=f"{key}.warm_pool.state",
            fault="Bottlerocket can neither hibernate nor reuse",
            remedy="use STOPPED or AL2023",
        )


def _cut(pool: Pool, key: str) -> Iterator[Problem]:
    if not pool.mig:
        return
    if pool.image.bottlerocket:
        yield Problem(key=f"{key}.image", fault="Bottlerocket has no mixed MIG", remedy="use AL2023_x86_64_NVIDIA")
    for item in _types(pool):
        fault = misfit(item.gpu, pool.mig) if item.mig else f"{item.name} ({item.gpu}) has no MIG"
        if fault:
            yield Problem(
                key=f"{key}.mig", fault=fault, remedy="correct the layout, or use whole GPUs or a p4d/p5 type"
            )


def _duplicates(region: Region) -> list[Problem]:
    return [
        Problem(key=f"{region.name}.pools", fault=f"{name} stands {count} times", remedy="give each pool its own name")
        for name, count in Counter(pool.name for pool in region.pools).items()
        if count > 1
    ]


def _floor(region: Region) -> Iterator[Problem]:
    """A kind of device that spot alone has is gone for its versions when spot is."""
    kinds: dict[str, list[Pool]] = {}
    for pool in region.pools:
        known = [instances()[name].gpu for name in pool.instance_types if name in instances()]
        if pool.gpu and known:
            kinds.setdefault(f"{known[0]} {sorted(pool.mig)}", []).append(pool)
    for pools in kinds.values():
        if all(pool.capacity is Capacity.SPOT for pool in pools):
            yield Problem(
                key=f"{region.name}.pools({pools[0].name})",
                fault="is on spot, and no other pool has its GPU",
                remedy="add an on-demand or paid pool of it",
            )


def _reserved_once(fleet: Fleet) -> Iterator[Problem]:
    """A reservation is bought once, in one zone: copied with its pool, it holds nothing in the other region."""
    first: dict[str, str] = {}
    for region in fleet.regions:
        for pool in region.pools:
            if pool.reservation is None:
                continue
            key, bought = f"{region.name}.pools({pool.name}).reservation.id", pool.reservation.id
            if bought in first:
                yield Problem(
                    key=key, fault=f"{bought} is {first[bought]}'s", remedy="give the id that was bought here"
                )
            first.setdefault(bought, f"{region.name}.{pool.name}")


def quota_demand(region: Region) -> dict[str, int]:
    """The vCPUs per EC2 quota if every pool stood at its maximum; paid-ahead capacity counts too."""
    demand: Counter[str] = Counter()
    for pool in region.pools:
        types = [instances()[name] for name in pool.instance_types if name in instances()]
        if types:
            suffix = "-spot" if pool.capacity is Capacity.SPOT else ""
            demand[types[0].quota + suffix] += pool.max_size * max(item.vcpu for item in types)
    return dict(demand)


def _quotas(region: Region) -> list[Problem]:
    return [
        Problem(
            key=f"{region.name}.quotas_vcpu.{quota}",
            fault=f"is {region.quotas_vcpu.get(quota, 0)}, the pools' maxima need {need} vCPU",
            remedy="ask AWS for more and write it here, or lower a max_size",
        )
        for quota, need in quota_demand(region).items()
        if need > region.quotas_vcpu.get(quota, 0)
    ]


def _types(pool: Pool) -> list[Instance]:
    return [instances()[name] for name in pool.instance_types]
