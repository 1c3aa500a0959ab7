"""One way or more to break each invariant of node pools."""

import base64

from tests.infra.edits import EAST_REGION, Breach, drop, option, plant, put, twin, unlink

TEMPLATE = "k8s.io/cluster-autoscaler/node-template/resources"
PLAIN = base64.b64encode(b"#!/bin/sh\n").decode()

POOLS = (
    Breach(
        rule="pool-zones",
        stack=EAST_REGION,
        spoil=unlink("NodeGroup", "l40s-base-use1-az2", "subnetIds", "private-use1-az2", "private-use1-az4"),
        where="l40s-base-use1-az2",
    ),
    Breach(rule="pool-zones", stack=EAST_REGION, spoil=drop("NodeGroup", "l40s-base-use1-az2")),
    Breach(rule="pool-known", stack=EAST_REGION, spoil=drop("NodeGroup", "a100-mig")),
    Breach(
        rule="pool-known",
        stack=EAST_REGION,
        spoil=twin("NodeGroup", "cpu-use1-az2", labels={"penstock.io/pool": "shadow"}),
    ),
    Breach(
        rule="paid-capacity",
        stack=EAST_REGION,
        spoil=put(
            "LaunchTemplate",
            "a100-mig",
            "capacityReservationSpecification/capacityReservationTarget/capacityReservationId",
            "cr-other",
        ),
        where="a100-mig",
    ),
    Breach(rule="paid-capacity", stack=EAST_REGION, spoil=put("NodeGroup", "a100-mig", "scalingConfig/minSize", 1)),
    Breach(
        rule="paid-capacity",
        stack=EAST_REGION,
        spoil=put("LaunchTemplate", "h100-block", "instanceMarketOptions/marketType", "spot"),
        where="h100-block",
    ),
    Breach(
        rule="types-exist",
        stack=EAST_REGION,
        spoil=put("NodeGroup", "l40s-base-use1-az2", "instanceTypes", ["g6e.3xlarge"]),
    ),
    Breach(
        rule="image-fits",
        stack=EAST_REGION,
        spoil=put("NodeGroup", "l40s-base-use1-az2", "amiType", "AL2023_x86_64_STANDARD"),
    ),
    Breach(rule="image-fits", stack=EAST_REGION, spoil=put("NodeGroup", "cpu-use1-az2", "amiType", "AL2_x86_64")),
    Breach(rule="pool-labels", stack=EAST_REGION, spoil=put("NodeGroup", "l40s-base-use1-az2", "taints", [])),
    Breach(
        rule="pool-labels",
        stack=EAST_REGION,
        spoil=put("NodeGroup", "l40s-base-use1-az2", "labels|penstock.io/scaler", None),
    ),
    Breach(rule="warm-pool", stack=EAST_REGION, spoil=put("NodeGroup", "l40s-base-use1-az2", "capacityType", "SPOT")),
    Breach(
        rule="warm-pool", stack=EAST_REGION, spoil=put("NodeGroup", "l40s-base-use1-az2", "warmPoolConfig/minSize", 0)
    ),
    Breach(rule="warm-pool", stack=EAST_REGION, spoil=put("NodeGroup", "l40s-base-use1-az2", "warmPoolConfig", None)),
    Breach(
        rule="warm-pool",
        stack=EAST_REGION,
        spoil=put("NodeGroup", "l40s-base-use1-az2", "amiType", "BOTTLEROCKET_x86_64_NVIDIA"),
    ),
    Breach(
        rule="spot-diverse", stack=EAST_REGION, spoil=put("NodeGroup", "l40s-base-use1-az2", "capacityType", "SPOT")
    ),
    Breach(
        rule="metadata-closed",
        stack=EAST_REGION,
        spoil=put("LaunchTemplate", "cpu", "metadataOptions/httpTokens", "optional"),
    ),
    Breach(
        rule="metadata-closed",
        stack=EAST_REGION,
        spoil=put("LaunchTemplate", "cpu", "metadataOptions/httpPutResponseHopLimit", 2),
    ),
    Breach(
        rule="disks-encrypted",
        stack=EAST_REGION,
        spoil=put("LaunchTemplate", "cpu", "blockDeviceMappings/0/ebs/encrypted", "false"),
    ),
    Breach(rule="nvme-joined", stack=EAST_REGION, spoil=put("LaunchTemplate", "l40s-base", "userData", PLAIN)),
    Breach(
        rule="mig-labelled", stack=EAST_REGION, spoil=put("NodeGroup", "a100-mig", "labels|nvidia.com/mig.config", None)
    ),
    Breach(
        rule="mig-labelled",
        stack=EAST_REGION,
        spoil=put("NodeGroup", "l40s-base-use1-az2", "labels|nvidia.com/mig.config", "all-1g"),
    ),
    Breach(rule="efa-together", stack=EAST_REGION, spoil=put("LaunchTemplate", "h100-block", "networkInterfaces", [])),
    Breach(
        rule="efa-together",
        stack=EAST_REGION,
        spoil=plant("aws:ec2/placementGroup:PlacementGroup", called="h100-block", strategy="cluster"),
        where="h100-block",
    ),
    Breach(
        rule="scale-from-zero",
        stack=EAST_REGION,
        spoil=put("NodeGroup", "a100-mig", f"tags|{TEMPLATE}/nvidia.com/mig-3g.20gb", "8"),
        where="a100-mig",
    ),
    Breach(
        rule="scale-from-zero",
        stack=EAST_REGION,
        spoil=put("NodeGroup", "h100-block", f"tags|{TEMPLATE}/vpc.amazonaws.com/efa", None),
        where="h100-block",
    ),
    Breach(
        rule="nodes-follow",
        stack=EAST_REGION,
        spoil=put("NodeGroup", "cpu-use1-az2", "version", "1.34"),
        where="cpu-use1-az2",
    ),
    Breach(
        rule="nodes-follow",
        stack=EAST_REGION,
        spoil=put("LaunchTemplate", "cpu", "namePrefix", None),
        where="cpu-use1-az2",
    ),
    Breach(rule="efa-together", stack=EAST_REGION, spoil=put("NodeGroup", "h100-block", "subnetIds", ["a", "b"])),
    Breach(rule="scaler-owns-size", stack=EAST_REGION, spoil=option("NodeGroup", "cpu-use1-az2", ignore_changes=())),
    Breach(
        rule="scaler-owns-size",
        stack=EAST_REGION,
        spoil=put("NodeGroup", "cpu-use1-az2", "nodeRepairConfig/enabled", False),
    ),
    Breach(rule="quotas", stack=EAST_REGION, spoil=put("NodeGroup", "l40s-base-use1-az2", "scalingConfig/maxSize", 60)),
    Breach(rule="paid-ahead-alarmed", stack=EAST_REGION, spoil=drop("MetricAlarm", "ReservationIdle-a100-mig")),
)
