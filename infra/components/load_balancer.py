"""The region's public face: one load balancer on 443, HTTP/2 towards clients and HTTP/1.1 towards pods.

It never buffers a stream, and forwards the public interface alone: whatever else a gateway answers stays inside.
"""

import pulumi
import pulumi_aws as aws

from infra.components.bucket import Bucket, BucketSpec, bucket_name
from infra.components.iam import Statement
from infra.components.network import ANYWHERE, Standing
from infra.components.site import Component, Site
from infra.config.kinds import DataClass
from infra.contract import process

GATEWAY_PORT = process("gateway").ports["public"].number
IDLE_S = 900
"""A heartbeat comment goes out every few seconds, so a silent connection for this long is dead."""

ACCESS_LOG_DAYS = 90
RULE_VALUES = 5
"""The most values that the conditions of one rule may hold: an ALB's quota, which can't be raised."""

TLS_POLICY = "ELBSecurityPolicy-TLS13-1-2-2021-06"


class LoadBalancer(Component):
    """Load balancer, certificate, target group. Pods register themselves through a TargetGroupBinding."""

    def __init__(
        self,
        name: str,
        site: Site,
        network: Standing,
        zone_id: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("LoadBalancer", name, site, opts)
        self.host = f"{site.region}.{site.environment.domain}"
        self.security_group = self._security_group(network)
        self.alb = self._balancer(network)
        self.target_group = self._target_group(network)
        self._listen(self._certificate(zone_id))
        self.register_outputs({})

    def _security_group(self, network: Standing) -> aws.ec2.SecurityGroup:
        group = aws.ec2.SecurityGroup(
            "alb",
            name_prefix=f"{self.site.named('alb')}-",
            description="HTTPS from anywhere, gateway ports to the private tier",
            vpc_id=network.vpc.id,
            tags=self.site.tags(DataClass.PUBLIC),
            opts=self.child(),
        )
        aws.vpc.SecurityGroupIngressRule(
            "alb-https",
            security_group_id=group.id,
            description="HTTPS from clients",
            cidr_ipv4=ANYWHERE,
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            tags=self.site.tags(),
            opts=self.child(),
        )
        aws.vpc.SecurityGroupEgressRule(
            "alb-gateway",
            security_group_id=group.id,
            description="To the gateways",
            cidr_ipv4=network.plan.cidr,
            ip_protocol="tcp",
            from_port=GATEWAY_PORT,
            to_port=GATEWAY_PORT,
            tags=self.site.tags(),
            opts=self.child(),
        )
        return group

    def _log_store(self) -> Bucket:
        objects = f"arn:aws:s3:::{bucket_name(self.site, 'alb-logs')}/AWSLogs/{self.site.environment.account_id}/*"
        deliver = Statement(
            sid="BalancerWrites",
            actions=("s3:PutObject",),
            resources=(objects,),
            principals={"Service": "logdelivery.elasticloadbalancing.amazonaws.com"},
            conditions={"StringEquals": {"aws:SourceAccount": self.site.environment.account_id}},
        )
        spec = BucketSpec(
            part="alb-logs",
            key_arn=None,
            data_class=DataClass.CONFIDENTIAL,
            noncurrent_days=ACCESS_LOG_DAYS,
            expire_days=ACCESS_LOG_DAYS,
            grants=(deliver,),
        )
        return Bucket("alb-logs", self.site, spec, opts=self.child())

    def _balancer(self, network: Standing) -> aws.lb.LoadBalancer:
        logs = self._log_store()
        return aws.lb.LoadBalancer(
            "alb",
            name=f"{self.site.environment.organization}-{self.site.environment.name}-alb",
            load_balancer_type="application",
            internal=False,
            subnets=[subnet.id for subnet in network.public.values()],
            security_groups=[self.security_group.id],
            idle_timeout=IDLE_S,
            drop_invalid_header_fields=True,
            desync_mitigation_mode="strictest",
            enable_deletion_protection=self.site.environment.keep,
            enable_zonal_shift=True,
            access_logs=aws.lb.LoadBalancerAccessLogsArgs(bucket=logs.bucket.id, enabled=True),
            tags=self.site.tags(DataClass.PUBLIC),
            opts=self.guarded(logs.policy),
        )

    def _target_group(self, network: Standing) -> aws.lb.TargetGroup:
        return aws.lb.TargetGroup(
            "gateway",
            name_prefix="gate-",  # six letters at most; a fixed name could not be replaced while it is in use
            vpc_id=network.vpc.id,
            target_type="ip",
            protocol="HTTP",
            protocol_version="HTTP1",
            port=GATEWAY_PORT,
            deregistration_delay=self.site.environment.gateway.drain_s,
            load_balancing_algorithm_type="least_outstanding_requests",
            health_check=aws.lb.TargetGroupHealthCheckArgs(
                path="/readyz",
                port="traffic-port",
                protocol="HTTP",
                interval=5,
                timeout=3,
                healthy_threshold=2,
                unhealthy_threshold=2,
            ),
            tags=self.site.tags(),
            opts=self.child(),
        )

    def _certificate(self, zone_id: pulumi.Input[str]) -> aws.acm.CertificateValidation:
        certificate = aws.acm.Certificate(
            "alb",
            domain_name=self.site.environment.domain,
            subject_alternative_names=[self.host],
            validation_method="DNS",
            key_algorithm="EC_prime256v1",
            tags=self.site.tags(DataClass.PUBLIC),
            opts=self.child(),
        )
        own = self._proof(certificate, zone_id)
        return aws.acm.CertificateValidation(
            "alb",
            certificate_arn=certificate.arn,
            validation_record_fqdns=[_option(certificate, self.site.environment.domain)["name"], own.fqdn],
            opts=self.child(),
        )

    def _proof(self, certificate: aws.acm.Certificate, zone_id: pulumi.Input[str]) -> aws.route53.Record:
        """The record that proves the region's own name; the shared domain's is the account's, not a region's."""
        option = _option(certificate, self.host)
        return aws.route53.Record(
            "alb-proof",
            zone_id=zone_id,
            name=option["name"],
            type=aws.route53.RecordType.CNAME,
            records=[option["value"]],
            ttl=300,
            opts=self.child(),
        )

    def _listen(self, certificate: aws.acm.CertificateValidation) -> None:
        refusal = aws.lb.ListenerDefaultActionFixedResponseArgs(content_type="text/plain", status_code="404")
        listener = aws.lb.Listener(
            "https",
            load_balancer_arn=self.alb.arn,
            port=443,
            protocol="HTTPS",
            ssl_policy=TLS_POLICY,
            certificate_arn=certificate.certificate_arn,
            default_actions=[aws.lb.ListenerDefaultActionArgs(type="fixed-response", fixed_response=refusal)],
            tags=self.site.tags(),
            opts=self.child(),
        )
        public = process("gateway").ports["public"].paths
        for first in range(0, len(public), RULE_VALUES):
            values = list(public[first : first + RULE_VALUES])
            paths = aws.lb.ListenerRuleConditionPathPatternArgs(values=values)
            aws.lb.ListenerRule(
                f"public-{first // RULE_VALUES}" if first else "public",
                listener_arn=listener.arn,
                priority=1 + first // RULE_VALUES,
                conditions=[aws.lb.ListenerRuleConditionArgs(path_pattern=paths)],
                actions=[aws.lb.ListenerRuleActionArgs(type="forward", target_group_arn=self.target_group.arn)],
                tags=self.site.tags(),
                opts=self.child(),
            )


def _option(certificate: aws.acm.Certificate, host: str) -> dict[str, pulumi.Output[str]]:
    """Name and value of the record that proves one of the certificate's names."""
    options = certificate.domain_validation_options
    found = options.apply(lambda all_of_them: next(item for item in all_of_them if item.domain_name == host))
    return {
        "name": found.apply(lambda item: (item.resource_record_name or "").rstrip(".")),
        "value": found.apply(lambda item: item.resource_record_value or ""),
    }
