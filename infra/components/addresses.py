"""The address plan of one region as arithmetic: which block each tier gets in each zone. No resource is made here."""

from dataclasses import dataclass
from ipaddress import IPv4Network, ip_network

PRIVATE_PREFIX = 18
PUBLIC_PREFIX = 24
DATA_PREFIX = 24
ADDRESSES_PER_NODE = 64
"""What one node may take from its subnet: two network interfaces' worth of pods and the small warm reserve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One subnet per tier and zone. A /16 gives three private /18; the last /18 holds the small tiers."""

    cidr: str
    zone_ids: tuple[str, ...]

    def _vpc(self) -> IPv4Network:
        network = ip_network(self.cidr)
        if not isinstance(network, IPv4Network):
            raise TypeError(f"{self.cidr} is not IPv4")
        return network

    def private(self) -> dict[str, str]:
        """Zone id to the block of nodes and pods."""
        blocks = self._vpc().subnets(new_prefix=PRIVATE_PREFIX)
        return {zone: str(block) for zone, block in zip(self.zone_ids, blocks, strict=False)}

    def public(self) -> dict[str, str]:
        """Zone id to the block of load balancer and NAT."""
        return self._small(offset=0)

    def data(self) -> dict[str, str]:
        """Zone id to the block of databases, which has no route out."""
        return self._small(offset=8)

    def _small(self, *, offset: int) -> dict[str, str]:
        last = list(self._vpc().subnets(new_prefix=PRIVATE_PREFIX))[-1]
        blocks = list(last.subnets(new_prefix=PUBLIC_PREFIX))
        return {zone: str(blocks[offset + index]) for index, zone in enumerate(self.zone_ids)}
