"""Node pools under an auto-scaling group: a launch template, a managed node group, a warm
pool if the config has one.
"""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.catalogue.instances import instances
from infra.components.cluster import Joined
from infra.components.labels import GPU_TAINT, GPU_TAINT_VALUE, mig_resource, pool_labels
from infra.components.site import Component, Site
from infra.components.userdata import user_data
from infra.config.kinds import Capacity
from infra.config.pools import Pool

CAPACITY_TYPES = {
    Capacity.ON_DEMAND: "ON_DEMAND",
    Capacity.SPOT: "SPOT",
    Capacity.RESERVED: "ON_DEMAND",
    Capacity.CAPACITY_BLOCK: "CAPACITY_BLOCK",
}
FIRST_CARD = 0
ROOT_GIB = 100
"""Disks above this hold images and weights and get the throughput for it."""


def disk_speed(gib: int) -> tuple[int, int]:
    """The IOPS and the MB/s of a disk of this size."""
    return (6000, 1000) if gib > ROOT_GIB else (3000, 250)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpec:
    """The pool, the zones it stands in (the catalogue's answer), the key of its disks, and what nodes wait for."""

    pool: Pool
    zone_ids: tuple[str, ...]
    disk_key_arn: pulumi.Input[str]
    after: tuple[pulumi.Resource, ...] = ()


TEMPLATE_TAG = "k8s.io/cluster-autoscaler/node-template/resources"


def template_tags(pool: Pool) -> dict[str, str]:
    """What a node of an empty group will offer beside its type's own: Cluster Autoscaler can't look at a node there.

    Sliced GPUs are slices and no GPUs any more.
    """
    machine = instances()[pool.instance_types[0]]
    offered = {mig_resource(profile): machine.gpus * count for profile, count in pool.mig.items()}
    if pool.gpu:
        offered[GPU_TAINT] = 0 if pool.mig else machine.gpus
    if pool.efa:
        offered["vpc.amazonaws.com/efa"] = machine.efa
    return {f"{TEMPLATE_TAG}/{name}": str(count) for name, count in offered.items()}


class NodePool(Component):
    """A template, and a managed node group per zone. The scaler owns the desired sizes after creation.

    A group over several zones gives Cluster Autoscaler no say in where a node comes up: a pod that must go to one
    zone waits for ever, and the group's own rebalancing ends nodes with streams on them. Per zone, it chooses.
    """

    def __init__(
        self, name: str, site: Site, cluster: Joined, spec: PoolSpec, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("NodePool", name, site, opts)
        self.pool, self.spec, self.owner = spec.pool, spec, cluster
        # A capacity block is placed by AWS when it is bought; a group of ours would never match it.
        placed = self.pool.efa and self.pool.capacity is not Capacity.CAPACITY_BLOCK
        self.placement = self._placement_group() if placed else None
        template = self._template()
        self.groups = [self._group(template, index, zone) for index, zone in enumerate(spec.zone_ids)]
        self.register_outputs({})

    def _placement_group(self) -> aws.ec2.PlacementGroup:
        return aws.ec2.PlacementGroup(
            self.pool.name,
            name=self.site.named(self.pool.name),
            strategy="cluster",
            tags=self.site.tags(),
            opts=self.child(),
        )

    def _template(self) -> aws.ec2.LaunchTemplate:
        pool, site = self.pool, self.site
        tags = site.tags(Name=site.named(pool.name), pool=pool.name)
        in_block = pool.capacity is Capacity.CAPACITY_BLOCK
        return aws.ec2.LaunchTemplate(
            pool.name,
            name_prefix=f"{site.named(pool.name)}-",
            instance_type=pool.instance_types[0] if in_block else None,
            block_device_mappings=self._disks(),
            metadata_options=aws.ec2.LaunchTemplateMetadataOptionsArgs(
                http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=1
            ),
            monitoring=aws.ec2.LaunchTemplateMonitoringArgs(enabled=True),
            user_data=user_data(pool),
            vpc_security_group_ids=None if pool.efa else [self._node_group_id()],
            network_interfaces=self._interfaces() if pool.efa else None,
            placement=aws.ec2.LaunchTemplatePlacementArgs(group_name=self.placement.name) if self.placement else None,
            instance_market_options=(
                aws.ec2.LaunchTemplateInstanceMarketOptionsArgs(market_type="capacity-block") if in_block else None
            ),
            capacity_reservation_specification=self._reservation(),
            tag_specifications=[
                aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=tags)
                for kind in ("instance", "volume", "network-interface")
            ],
            update_default_version=True,
            tags=tags,
            opts=self.child(),
        )

    def _node_group_id(self) -> pulumi.Output[str]:
        return self.owner.cluster.vpc_config.apply(lambda config: config.cluster_security_group_id or "")

    def _disks(self) -> list[aws.ec2.LaunchTemplateBlockDeviceMappingArgs]:
        data_device = "/dev/xvdb" if self.pool.image.bottlerocket else "/dev/xvda"
        sizes = {"/dev/xvda": 8, data_device: self.pool.disk_gib}
        return [
            aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
                device_name=device,
                ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
                    volume_type="gp3",
                    volume_size=size,
                    iops=disk_speed(size)[0],
                    throughput=disk_speed(size)[1],
                    encrypted="true",
                    kms_key_id=self.spec.disk_key_arn,
                    delete_on_termination="true",
                ),
            )
            for device, size in sizes.items()
        ]

    def _interfaces(self) -> list[aws.ec2.LaunchTemplateNetworkInterfaceArgs]:
        """One interface per network card: the first carries IP and EFA, the others EFA alone and cost no address."""
        count, group = instances()[self.pool.instance_types[0]].efa, self._efa_group()
        return [
            aws.ec2.LaunchTemplateNetworkInterfaceArgs(
                network_card_index=card,
                device_index=0 if card == FIRST_CARD else 1,
                interface_type="efa" if card == FIRST_CARD else "efa-only",
                security_groups=[self._node_group_id(), group.id],
                delete_on_termination="true",
            )
            for card in range(count)
        ]

    def _efa_group(self) -> aws.ec2.SecurityGroup:
        """EFA needs all traffic to and from the members of its own group, and nothing else."""
        group = aws.ec2.SecurityGroup(
            f"{self.pool.name}-efa",
            name_prefix=f"{self.site.named(self.pool.name)}-efa-",
            description="EFA between the nodes of one pool",
            vpc_id=self.owner.network.vpc.id,
            tags=self.site.tags(),
            opts=self.child(),
        )
        aws.vpc.SecurityGroupIngressRule(
            f"{self.pool.name}-efa",
            security_group_id=group.id,
            referenced_security_group_id=group.id,
            description="EFA from the same pool",
            ip_protocol="-1",
            tags=self.site.tags(),
            opts=self.child(),
        )
        aws.vpc.SecurityGroupEgressRule(
            f"{self.pool.name}-efa",
            security_group_id=group.id,
            referenced_security_group_id=group.id,
            description="EFA to the same pool",
            ip_protocol="-1",
            tags=self.site.tags(),
            opts=self.child(),
        )
        return group

    def _reservation(self) -> aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs | None:
        if self.pool.reservation is None:
            return None
        target = aws.ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs(
            capacity_reservation_id=self.pool.reservation.id
        )
        return aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(capacity_reservation_target=target)

    def _group(self, template: aws.ec2.LaunchTemplate, index: int, zone: str) -> aws.eks.NodeGroup:
        """The pool's share of one zone. Sizes are split so that the zones' shares add up to the pool's."""
        pool, site = self.pool, self.site
        in_block = pool.capacity is Capacity.CAPACITY_BLOCK
        label = self.label(zone)
        least, most = self._share(pool.min_size, index), self._share(pool.max_size, index)
        return aws.eks.NodeGroup(
            label,
            cluster_name=self.owner.cluster.name,
            node_group_name_prefix=f"{label}-",
            version=site.environment.kubernetes.version,
            node_role_arn=self.owner.node_role.arn,
            subnet_ids=self.owner.network.private_ids((zone,)),
            ami_type=pool.image.value,
            capacity_type=CAPACITY_TYPES[pool.capacity],
            instance_types=None if in_block else list(pool.instance_types),
            launch_template=aws.eks.NodeGroupLaunchTemplateArgs(
                id=template.id, version=template.latest_version.apply(str)
            ),
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(min_size=least, max_size=most, desired_size=least),
            warm_pool_config=self._warm_pool(index),
            labels=pool_labels(pool),
            taints=(
                [aws.eks.NodeGroupTaintArgs(key=GPU_TAINT, value=GPU_TAINT_VALUE, effect="NO_SCHEDULE")]
                if pool.gpu
                else None
            ),
            update_config=aws.eks.NodeGroupUpdateConfigArgs(max_unavailable=1),
            node_repair_config=aws.eks.NodeGroupNodeRepairConfigArgs(enabled=True),
            tags=site.tags(pool=pool.name) | template_tags(pool),
            opts=self.child(self.owner.node_entry, *self.spec.after, ignore_changes=["scalingConfig.desiredSize"]),
        )

    def label(self, zone: str) -> str:
        """A group's name: the pool's, and the zone's if the pool stands in several."""
        return f"{self.pool.name}-{zone}" if len(self.spec.zone_ids) > 1 else self.pool.name

    def _share(self, total: int, index: int) -> int:
        zones = len(self.spec.zone_ids)
        return total // zones + (index < total % zones)

    def _warm_pool(self, index: int) -> aws.eks.NodeGroupWarmPoolConfigArgs | None:
        warm = self.pool.warm_pool
        if warm is None or not self._share(warm.min_size, index):
            return None
        return aws.eks.NodeGroupWarmPoolConfigArgs(
            min_size=self._share(warm.min_size, index),
            max_group_prepared_capacity=self._share(warm.max_prepared, index),
            pool_state=warm.state.value,
            reuse_on_scale_in=warm.reuse_on_scale_in,
        )
