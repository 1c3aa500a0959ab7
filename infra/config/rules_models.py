"""Whether every model can stand where its placements say: a pool that exists, holds it and outlives a spot storm."""

import re
from collections.abc import Iterator

from infra.catalogue.instances import instances
from infra.catalogue.mig import PROFILES
from infra.config.kinds import Capacity
from infra.config.model import Fleet, Region
from infra.config.pools import Model, Placement, Pool
from infra.config.problems import Problem

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def judge_models(fleet: Fleet) -> list[Problem]:
    """Faults in the models and their placements, in every region."""
    problems: list[Problem] = []
    for model in fleet.environment.models:
        key = f"environment.models.{model.slug}"
        problems += _judge_model(model, key)
        for region in fleet.regions:
            for placement in model.placements:
                problems += _judge_placement(region, model, placement, f"{key}.placements.{placement.pool}")
            problems += _floor(region, model, f"{key}.placements")
    return problems


def _judge_model(model: Model, key: str) -> Iterator[Problem]:
    if not _DIGEST.fullmatch(model.digest):
        yield Problem(key=f"{key}.digest", fault=f"is {model.digest!r}", remedy="give the manifest's sha256 digest")
    if model.mig_profile and (model.gpus > 1 or model.nodes > 1):
        yield Problem(
            key=f"{key}.mig_profile",
            fault="a slice can't take part in tensor parallelism",
            remedy="use whole GPUs for gpus > 1",
        )


def _judge_placement(region: Region, model: Model, placement: Placement, key: str) -> Iterator[Problem]:
    pools = {pool.name: pool for pool in region.pools}
    if placement.pool not in pools:
        if f"pool:{placement.pool}" not in region.asymmetries:
            yield Problem(
                key=key,
                fault=f"{region.name} has no pool {placement.pool}",
                remedy=f"add the pool, or list `pool:{placement.pool}` in {region.name}.asymmetries",
            )
        return
    pool = pools[placement.pool]
    capacity = replicas_held(pool, model)
    if capacity == 0:
        yield Problem(
            key=key,
            fault=f"{pool.name} can't hold one replica",
            remedy="choose a pool with the GPUs and memory it needs",
        )
    elif not 0 <= placement.min_replicas <= placement.max_replicas <= capacity:
        yield Problem(
            key=f"{key}.max_replicas",
            fault=f"is {placement.max_replicas}, {pool.name} holds {capacity}",
            remedy="lower it, or raise the pool's max_size",
        )


def replicas_held(pool: Pool, model: Model) -> int:
    """How many replicas of the model the pool holds at its maximum size; 0 where not even one fits."""
    types = [instances()[name] for name in pool.instance_types if name in instances()]
    if not types or not pool.gpu:
        return 0
    if bool(model.mig_profile) != bool(pool.mig):
        return 0
    smallest = min(types, key=lambda item: item.gpus)
    if model.mig_profile:
        profile = PROFILES.get(smallest.gpu, {}).get(model.mig_profile)
        fits = profile is not None and profile.memory_gib >= model.memory_gib
        return pool.max_size * smallest.gpus * pool.mig.get(model.mig_profile, 0) if fits else 0
    if smallest.gpus < model.gpus or smallest.gpu_memory_gib < model.memory_gib:
        return 0
    return pool.max_size * (smallest.gpus // model.gpus) // model.nodes


def _floor(region: Region, model: Model, key: str) -> Iterator[Problem]:
    pools = {pool.name: pool for pool in region.pools}
    held = [pools[placement.pool] for placement in model.placements if placement.pool in pools]
    if held and all(pool.capacity is Capacity.SPOT for pool in held):
        yield Problem(
            key=key, fault=f"only spot pools in {region.name}", remedy="add a placement on an on-demand or paid pool"
        )
