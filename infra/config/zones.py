"""Which zones of a region a pool can really stand in: the catalogue decides, the config may only narrow."""

from infra.catalogue.instances import instances
from infra.config.model import Region
from infra.config.pools import Pool


def pool_zones(region: Region, pool: Pool) -> tuple[str, ...]:
    """The region's zones that offer every type of the pool; only the reservation's zone if one is held."""
    offered = tuple(
        zone
        for zone in region.zone_ids
        if all(instances()[name].in_zone(region.name, zone) for name in pool.instance_types)
    )
    if pool.reservation is not None:
        return tuple(zone for zone in offered if zone == pool.reservation.zone_id)
    return tuple(zone for zone in offered if not pool.zone_ids or zone in pool.zone_ids)
