"""Aurora PostgreSQL of one region: its own writer, spread over zones, reached by TLS and IAM."""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.components.iam import role, trusts
from infra.components.network import Standing
from infra.components.site import Component, Site
from infra.config.kinds import DataClass

ENGINE = "aurora-postgresql"
PORT = 5432
NAME = "penstock"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSpec:
    """The key, and the owner's password."""

    key_arn: pulumi.Input[str]
    owner_password: pulumi.Output[str]


class Database(Component):
    """The regional cluster. Each region writes its own: else its control plane would not stand alone."""

    def __init__(
        self, name: str, site: Site, network: Standing, spec: DatabaseSpec, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("Database", name, site, opts)
        self.spec = spec
        self.group = aws.ec2.SecurityGroup(
            "database",
            name_prefix=f"{site.named('database')}-",
            description="PostgreSQL from the nodes",
            vpc_id=network.vpc.id,
            tags=site.tags(),
            opts=self.child(),
        )
        aws.vpc.SecurityGroupIngressRule(
            "database",
            security_group_id=self.group.id,
            description="PostgreSQL from the private tier",
            cidr_ipv4=network.plan.cidr,
            ip_protocol="tcp",
            from_port=PORT,
            to_port=PORT,
            tags=site.tags(),
            opts=self.child(),
        )
        self.cluster = self._cluster(network)
        self._instances(network)
        self.endpoint = self.cluster.endpoint
        self.register_outputs({})

    def _parameters(self) -> aws.rds.ClusterParameterGroup:
        family = f"{ENGINE}{self.site.environment.database.engine_version.split('.', maxsplit=1)[0]}"
        forced = {"rds.force_ssl": "1", "log_statement": "ddl", "log_min_duration_statement": "500"}
        return aws.rds.ClusterParameterGroup(
            "penstock",
            name=self.site.named("postgres"),
            family=family,
            description="TLS forced, slow statements logged",
            parameters=[
                aws.rds.ClusterParameterGroupParameterArgs(name=key, value=value, apply_method="pending-reboot")
                for key, value in forced.items()
            ],
            tags=self.site.tags(),
            opts=self.child(),
        )

    def _cluster(self, network: Standing) -> aws.rds.Cluster:
        site = self.site
        subnets = aws.rds.SubnetGroup(
            "database",
            name=site.named("database"),
            subnet_ids=[subnet.id for subnet in network.data.values()],
            tags=site.tags(),
            opts=self.child(),
        )
        return aws.rds.Cluster(
            "penstock",
            cluster_identifier=site.named("postgres"),
            engine=ENGINE,
            engine_version=site.environment.database.engine_version,
            database_name=NAME,
            master_username="penstock_owner",
            master_password=self.spec.owner_password,
            db_subnet_group_name=subnets.name,
            db_cluster_parameter_group_name=self._parameters().name,
            vpc_security_group_ids=[self.group.id],
            storage_encrypted=True,
            kms_key_id=self.spec.key_arn,
            storage_type="aurora-iopt1",
            iam_database_authentication_enabled=True,
            backup_retention_period=site.environment.retention.backup_days,
            preferred_backup_window="07:00-08:00",
            preferred_maintenance_window="sun:08:30-sun:09:30",
            copy_tags_to_snapshot=True,
            deletion_protection=site.environment.keep,
            skip_final_snapshot=not site.environment.keep,
            final_snapshot_identifier=site.named("postgres-final"),
            enabled_cloudwatch_logs_exports=["postgresql"],
            tags=site.tags(DataClass.RESTRICTED),
            opts=self.stateful(),
        )

    def _instances(self, network: Standing) -> None:
        site = self.site
        watcher = role(
            self,
            "database-monitoring",
            trusts("monitoring.rds.amazonaws.com", site),
            managed=("service-role/AmazonRDSEnhancedMonitoringRole",),
        )
        for index in range(site.environment.database.instances):
            zone = network.plan.zone_ids[index % len(network.plan.zone_ids)]
            aws.rds.ClusterInstance(
                f"postgres-{index}",
                identifier=site.named(f"postgres-{index}"),
                cluster_identifier=self.cluster.id,
                engine=aws.rds.EngineType.AURORA_POSTGRESQL,
                engine_version=self.cluster.engine_version_actual,
                instance_class=site.environment.database.instance_class,
                availability_zone=network.data[zone].availability_zone,
                publicly_accessible=False,
                auto_minor_version_upgrade=True,
                monitoring_interval=30,
                monitoring_role_arn=watcher.arn,
                performance_insights_enabled=True,
                performance_insights_kms_key_id=self.spec.key_arn,
                promotion_tier=index,
                ca_cert_identifier="rds-ca-rsa2048-g1",
                copy_tags_to_snapshot=True,
                tags=site.tags(DataClass.RESTRICTED),
                opts=self.stateful(),
            )
