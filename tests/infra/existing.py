"""A network and a cluster of others, for dev: what the config names, and what the cloud says of each."""

from dataclasses import replace
from typing import Any

from infra.capture.others import fitting
from infra.config.existing import Existing, ExistingSubnet
from infra.config.kinds import Tier
from infra.config.load import load
from infra.config.model import Fleet

VPC, CLUSTER = "vpc-0a1b2c3d", "shared"
DRIVER = "arn:aws:iam::444455556666:role/its-driver"
Cloud = dict[str, dict[str, Any] | None]


def named(*, cluster: str = CLUSTER) -> Fleet:
    """Return dev with everything of others, but for what is left out."""
    fleet = load("dev")
    (region,) = fleet.regions
    subnets = tuple(
        ExistingSubnet(id=f"subnet-{tier}-{zone}", zone_id=zone, tier=tier) for tier in Tier for zone in region.zone_ids
    )
    existing = Existing(vpc_id=VPC, subnets=subnets, cluster=cluster, volumes_role=DRIVER)
    return replace(fleet, regions=(replace(region, existing=existing),))


def cloud(fleet: Fleet) -> Cloud:
    """Return what EC2 and EKS say: everything fits."""
    answers = fitting(fleet, fleet.regions[0])
    return {question: dict(answer) if answer else None for question, answer in answers.items()}
