"""One way or more to break each invariant of AWS resources."""

from tests.infra.edits import EAST_REGION, Breach, drop, option, plant, provider, put, rewrite, statement, twin, unlink

ART = "artifacts-us-east-1"
SSE = "rules/0/applyServerSideEncryptionByDefault"
EVERYBODY = {"AWS": "*"}

STORAGE = (
    Breach(
        rule="bucket-own-key", stack=EAST_REGION, spoil=drop("BucketServerSideEncryptionConfiguration", ART), where=ART
    ),
    Breach(
        rule="bucket-own-key",
        stack=EAST_REGION,
        spoil=put("BucketServerSideEncryptionConfiguration", ART, f"{SSE}/sseAlgorithm", "AES256"),
        where=ART,
    ),
    Breach(
        rule="bucket-own-key",
        stack=EAST_REGION,
        spoil=put(
            "BucketServerSideEncryptionConfiguration",
            ART,
            f"{SSE}/kmsMasterKeyId",
            "arn:aws:kms:us-west-2:111122223333:key/x",
        ),
        where=ART,
    ),
    Breach(
        rule="bucket-private",
        stack=EAST_REGION,
        spoil=put("BucketPublicAccessBlock", ART, "blockPublicAcls", False),
        where=ART,
    ),
    Breach(rule="bucket-tls", stack=EAST_REGION, spoil=drop("BucketPolicy", ART), where=ART),
    Breach(
        rule="bucket-tls",
        stack=EAST_REGION,
        spoil=rewrite("BucketPolicy", ART, "policy", "NumericLessThan", "NumericGreaterThan"),
        where=ART,
    ),
    Breach(
        rule="bucket-versioned",
        stack=EAST_REGION,
        spoil=put("BucketVersioning", ART, "versioningConfiguration/status", "Suspended"),
        where=ART,
    ),
    Breach(rule="bucket-owner", stack=EAST_REGION, spoil=drop("BucketOwnershipControls", ART), where=ART),
    Breach(rule="bucket-multipart", stack=EAST_REGION, spoil=drop("BucketLifecycleConfiguration", ART), where=ART),
    Breach(rule="replication-both-ways", stack="mesh", spoil=drop("BucketReplicationConfig", "artifacts-us-west-2")),
    Breach(
        rule="replication-both-ways",
        stack="mesh",
        spoil=put("BucketReplicationConfig", ART, "rules/0/destination/replicationTime/status", "Disabled"),
        where=ART,
    ),
    Breach(
        rule="replication-both-ways",
        stack="mesh",
        spoil=put(
            "BucketReplicationConfig",
            ART,
            "rules/0/sourceSelectionCriteria/sseKmsEncryptedObjects/status",
            "Disabled",
        ),
        where=ART,
    ),
    Breach(
        rule="audit-write-once",
        stack="global",
        spoil=put("BucketObjectLockConfiguration", "", "rule/defaultRetention/mode", "GOVERNANCE"),
        where="audit-us-east-1",
    ),
    Breach(
        rule="audit-write-once",
        stack="global",
        spoil=put("BucketObjectLockConfiguration", "", "rule/defaultRetention/days", 30),
        where="audit-us-east-1",
    ),
    Breach(
        rule="audit-own-key",
        stack="global",
        spoil=unlink("BucketServerSideEncryptionConfiguration", "", "rules", "data-us-east-1"),
        where="audit-us-east-1",
    ),
    Breach(
        rule="no-object-deletion",
        stack=EAST_REGION,
        spoil=statement(
            "RolePolicy",
            "pod-gateway-us-east-1",
            "policy",
            Action=["s3:DeleteObject"],
            Resource=["arn:aws:s3:::x/*"],
        ),
        where="pod-gateway-us-east-1",
    ),
    Breach(rule="keys-rotate", stack=EAST_REGION, spoil=put("Key", "logs-us-east-1", "enableKeyRotation", False)),
    Breach(rule="keys-rotate", stack="global", spoil=put("ReplicaKey", "data-us-west-2", "deletionWindowInDays", 7)),
    Breach(
        rule="keys-closed",
        stack=EAST_REGION,
        spoil=statement("Key", "logs-us-east-1", "policy", Action=["kms:Decrypt"], Principal=EVERYBODY, Resource=["*"]),
    ),
    Breach(
        rule="keys-closed",
        stack=EAST_REGION,
        spoil=statement(
            "Key",
            "logs-us-east-1",
            "policy",
            Action=["kms:Decrypt"],
            Principal={"Service": "x.amazonaws.com"},
            Resource=["*"],
        ),
    ),
    Breach(rule="data-keys-travel", stack="global", spoil=put("Key", "data-us-east-1", "multiRegion", False)),
    Breach(
        rule="data-keys-travel",
        stack="global",
        spoil=drop("ReplicaKey", "data-us-west-2"),
        where="data-us-east-1",
    ),
    Breach(rule="named-key", stack=EAST_REGION, spoil=put("LogGroup", "flow", "kmsKeyId", None), where="flow"),
    Breach(rule="named-key", stack=EAST_REGION, spoil=put("Topic", "alarms", "kmsMasterKeyId", None), where="alarms"),
    Breach(
        rule="registry-immutable",
        stack="global",
        spoil=put("Repository", "penstock-worker", "imageTagMutability", "MUTABLE"),
    ),
    Breach(rule="registry-everywhere", stack="global", spoil=drop("RepositoryCreationTemplate")),
    Breach(rule="registry-everywhere", stack="global", spoil=drop("ReplicationConfiguration")),
)

NETWORK = (
    Breach(
        rule="no-open-ingress",
        stack=EAST_REGION,
        spoil=put("SecurityGroupIngressRule", "database", "cidrIpv4", "0.0.0.0/0"),
        where="database",
    ),
    Breach(
        rule="no-open-ingress",
        stack=EAST_REGION,
        spoil=put("SecurityGroupIngressRule", "alb-https", "toPort", 8443),
        where="alb-https",
    ),
    Breach(
        rule="default-group-empty",
        stack=EAST_REGION,
        spoil=put("DefaultSecurityGroup", "", "ingress", [{"protocol": "-1", "fromPort": 0, "toPort": 0}]),
    ),
    Breach(
        rule="own-zone-nat",
        stack=EAST_REGION,
        spoil=unlink("Route", "private-use1-az2", "natGatewayId", "use1-az4"),
        where="private-use1-az2",
    ),
    Breach(
        rule="data-tier-closed",
        stack=EAST_REGION,
        spoil=unlink("RouteTableAssociation", "data-use1-az2", "routeTableId", "public"),
        where="data-use1-az2",
    ),
    Breach(rule="three-zones", stack=EAST_REGION, spoil=drop("Subnet", "data-use1-az6")),
    Breach(
        rule="blocks-apart",
        stack=EAST_REGION,
        spoil=put("Subnet", "data-use1-az2", "cidrBlock", "10.16.0.0/24"),
        where="",
    ),
    Breach(
        rule="blocks-apart", stack=EAST_REGION, spoil=put("Vpc", "", "cidrBlock", "10.32.0.0/16"), where="us-east-1"
    ),
    Breach(
        rule="s3-gateway",
        stack=EAST_REGION,
        spoil=unlink("VpcEndpoint", "s3", "routeTableIds", "private-use1-az2"),
        where="private-use1-az4",
    ),
    Breach(rule="private-aws", stack=EAST_REGION, spoil=drop("VpcEndpoint", "eks-auth")),
    Breach(rule="private-aws", stack=EAST_REGION, spoil=put("VpcEndpoint", "kms", "privateDnsEnabled", False)),
    Breach(rule="flow-logs", stack=EAST_REGION, spoil=put("FlowLog", "all", "trafficType", "REJECT")),
    Breach(
        rule="addresses-for-pods",
        stack=EAST_REGION,
        spoil=put("Subnet", "private-use1-az2", "cidrBlock", "10.16.0.0/24"),
    ),
)

CLUSTER = (
    Breach(
        rule="endpoint-private",
        stack=EAST_REGION,
        spoil=put("Cluster", "serving", "vpcConfig/endpointPublicAccess", True),
    ),
    Breach(
        rule="control-plane-logs", stack=EAST_REGION, spoil=put("Cluster", "serving", "enabledClusterLogTypes", ["api"])
    ),
    Breach(rule="secrets-encrypted", stack=EAST_REGION, spoil=put("Cluster", "serving", "encryptionConfig", None)),
    Breach(
        rule="api-entries",
        stack=EAST_REGION,
        spoil=put("Cluster", "serving", "accessConfig/authenticationMode", "API_AND_CONFIG_MAP"),
    ),
    Breach(
        rule="api-entries",
        stack=EAST_REGION,
        spoil=put("Cluster", "serving", "accessConfig/bootstrapClusterCreatorAdminPermissions", True),
    ),
    Breach(
        rule="addons-pinned", stack=EAST_REGION, spoil=put("Addon", "coredns", "addonVersion", None), where="coredns"
    ),
    Breach(rule="addons-pinned", stack=EAST_REGION, spoil=twin("Addon", "coredns", addonName="other")),
    Breach(rule="version-supported", stack=EAST_REGION, spoil=put("Cluster", "serving", "version", "1.29")),
    Breach(rule="cluster-guarded", stack=EAST_REGION, spoil=put("Cluster", "serving", "deletionProtection", False)),
    Breach(rule="cluster-guarded", stack=EAST_REGION, spoil=option("Cluster", "serving", protect=False)),
    Breach(rule="no-auto-mode", stack=EAST_REGION, spoil=put("Cluster", "serving", "computeConfig/enabled", True)),
)

IDENTITY = (
    Breach(
        rule="actions-named",
        stack=EAST_REGION,
        spoil=statement("RolePolicy", "pod-worker-us-east-1", "policy", Action=["s3:*"], Resource=["arn:aws:s3:::x"]),
    ),
    Breach(
        rule="resources-named",
        stack=EAST_REGION,
        spoil=statement("RolePolicy", "pod-worker-us-east-1", "policy", Action=["s3:GetObject"], Resource=["*"]),
    ),
    Breach(
        rule="principals-named",
        stack=EAST_REGION,
        spoil=statement(
            "QueuePolicy", "interruptions", "policy", Action=["sqs:SendMessage"], Principal="*", Resource=["x"]
        ),
    ),
    Breach(
        rule="documents-sound",
        stack=EAST_REGION,
        spoil=statement(
            "RolePolicy", "pod-worker-us-east-1", "policy", Action=["s3:GetObjekt"], Resource=["arn:aws:s3:::x/*"]
        ),
    ),
    Breach(
        rule="pods-by-identity",
        stack=EAST_REGION,
        spoil=rewrite("Role", "pod-worker-us-east-1", "assumeRolePolicy", "ArnEquals", "ArnLike"),
    ),
    Breach(rule="pods-by-identity", stack=EAST_REGION, spoil=twin("PodIdentityAssociation", "penstock-worker")),
    Breach(
        rule="nodes-get-addresses",
        stack=EAST_REGION,
        spoil=unlink("Addon", "vpc-cni", "podIdentityAssociations"),
    ),
    Breach(rule="nodes-get-addresses", stack=EAST_REGION, spoil=drop("Addon", "vpc-cni")),
    Breach(rule="nodes-get-addresses", stack=EAST_REGION, spoil=drop("Addon", "eks-pod-identity-agent")),
    Breach(
        rule="nodes-hold-nothing",
        stack=EAST_REGION,
        spoil=put(
            "RolePolicyAttachment",
            "node-AmazonEKSWorkerNodePolicy-us-east-1",
            "policyArn",
            "arn:aws:iam::aws:policy/AmazonS3FullAccess",
        ),
    ),
    Breach(
        rule="nodes-hold-nothing",
        stack=EAST_REGION,
        spoil=unlink("RolePolicy", "pod-worker-us-east-1", "role", "node-us-east-1"),
    ),
    Breach(rule="under-boundary", stack=EAST_REGION, spoil=put("Role", "node-us-east-1", "permissionsBoundary", None)),
    Breach(rule="no-people", stack="global", spoil=plant("aws:iam/user:User", name="somebody")),
    Breach(
        rule="boundary-forbids",
        stack="global",
        spoil=rewrite("Policy", "boundary", "policy", "cloudtrail:StopLogging", "cloudtrail:AddTags"),
    ),
)

OPERATIONS = (
    Breach(rule="database-spread", stack=EAST_REGION, spoil=drop("ClusterInstance", "postgres-1")),
    Breach(
        rule="database-spread",
        stack=EAST_REGION,
        spoil=unlink("ClusterInstance", "postgres-1", "availabilityZone", "data-use1-az2"),
    ),
    Breach(rule="database-safe", stack=EAST_REGION, spoil=put("Cluster", "penstock", "deletionProtection", False)),
    Breach(rule="database-safe", stack=EAST_REGION, spoil=put("Cluster", "penstock", "globalClusterIdentifier", "x")),
    Breach(rule="database-safe", stack=EAST_REGION, spoil=put("ClusterParameterGroup", "", "parameters", [])),
    Breach(
        rule="cache-safe", stack=EAST_REGION, spoil=put("ReplicationGroup", "", "transitEncryptionMode", "preferred")
    ),
    Breach(rule="cache-safe", stack=EAST_REGION, spoil=put("ReplicationGroup", "", "multiAzEnabled", False)),
    Breach(rule="cache-safe", stack=EAST_REGION, spoil=put("ReplicationGroup", "answers", "numCacheClusters", 1)),
    Breach(rule="state-protected", stack=EAST_REGION, spoil=option("Bucket", ART, protect=False), where=ART),
    Breach(rule="tagged", stack=EAST_REGION, spoil=put("Vpc", "", "tags/owner", None), where="us-east-1"),
    Breach(rule="tagged", stack="global", spoil=put("RepositoryCreationTemplate", "", "resourceTags", None)),
    Breach(rule="money-watched", stack="mesh", spoil=drop("Budget")),
    Breach(rule="money-watched", stack="mesh", spoil=drop("AnomalySubscription")),
    Breach(rule="interruptions-heard", stack=EAST_REGION, spoil=drop("EventRule", "rebalance")),
    Breach(
        rule="interruptions-heard",
        stack=EAST_REGION,
        spoil=rewrite("EventRule", "spot-interruption", "eventPattern", "Warning", "Notice"),
    ),
    Breach(rule="interruptions-heard", stack=EAST_REGION, spoil=drop("EventTarget", "spot-interruption")),
    Breach(rule="regions-routed", stack="mesh", spoil=drop("Record", "shared-us-west-2")),
    Breach(rule="regions-routed", stack="mesh", spoil=put("Record", "shared-us-west-2", "healthCheckId", None)),
    Breach(rule="region-out-pages", stack="mesh", spoil=drop("MetricAlarm", "RegionOut-us-west-2"), where="us-west-2"),
    Breach(
        rule="alarms-arrive",
        stack=EAST_REGION,
        spoil=put("MetricAlarm", "SpotReclaims", "alarmActions", ["arn:aws:sns:us-west-2:111122223333:x"]),
    ),
    Breach(rule="alb-behind-waf", stack="mesh", spoil=drop("WebAclAssociation", "us-west-2")),
    Breach(
        rule="alb-behind-waf",
        stack="mesh",
        spoil=put(
            "WebAclLoggingConfiguration", "us-west-2", "redactedFields", [{"singleHeader": {"name": "authorization"}}]
        ),
    ),
    Breach(
        rule="alb-behind-waf",
        stack="mesh",
        spoil=put("WebAclLoggingConfiguration", "us-west-2", "redactedFields", None),
    ),
    Breach(rule="alb-tls", stack=EAST_REGION, spoil=put("Listener", "https", "sslPolicy", "ELBSecurityPolicy-2016-08")),
    Breach(
        rule="drills-stop", stack="mesh", spoil=put("ExperimentTemplate", "zone-loss-use1-az2", "stopConditions", [])
    ),
    Breach(rule="drills-cover", stack="mesh", spoil=drop("ExperimentTemplate", "spot-reclaim-l40s-spot-us-east-1")),
    Breach(rule="explicit-provider", stack=EAST_REGION, spoil=provider("Vpc", "", "")),
    Breach(
        rule="explicit-provider",
        stack=EAST_REGION,
        spoil=provider("Vpc", "", "urn:x::y::pulumi:providers:aws::default::id"),
    ),
    Breach(
        rule="explicit-provider", stack=EAST_REGION, spoil=provider("Vpc", "", "urn:x::y::p:aws::a::id", "eu-west-1")
    ),
    Breach(
        rule="inputs-resolved",
        stack=EAST_REGION,
        spoil=put("LogGroup", "flow", "name", "Calling __str__ on an Output[T] is not supported."),
    ),
    Breach(
        rule="inputs-spelled",
        stack=EAST_REGION,
        spoil=put("NodeGroup", "cpu-use1-az2", "scalingConfig/min_sise", "1"),
    ),
    Breach(rule="references-whole", stack=EAST_REGION, spoil=put("Addon", "coredns", "clusterName", "")),
    Breach(
        rule="within-budget",
        stack=EAST_REGION,
        spoil=put("NodeGroup", "l40s-base-use1-az2", "scalingConfig/minSize", 1000),
    ),
)
