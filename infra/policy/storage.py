"""Stores and keys: encrypted with keys of ours, private, TLS only, versioned, replicated, and the record write-once."""

from collections import Counter
from collections.abc import Iterator

from infra.components.keys import DELETION_DAYS, MULTI_REGION, ROTATION_DAYS
from infra.config.kinds import StackKind
from infra.config.rules import MIN_AUDIT_DAYS
from infra.graph.nodes import Node
from infra.graph.values import UNKNOWN, items, number, text
from infra.policy.invariant import Book, Breach
from infra.policy.view import View, allowed_actions

book = Book()

BUCKET = "aws:s3/bucket:Bucket"
SSE = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
NO_CUSTOMER_KEY = ("alb-logs",)
"""Load balancers can't write access logs under a customer key; buckets of this name are the whole exception."""

EVENTS = "events.amazonaws.com"
SOURCELESS = {"EventsUsesKey": "EventBridge names no source when it publishes to a topic, so no condition could hold"}
"""Statements of key policies that let a service in without a condition, and why."""

_APPLIED = "rules.0.applyServerSideEncryptionByDefault"
NAMED_KEY = {
    "aws:cloudwatch/logGroup:LogGroup": "kmsKeyId",
    "aws:secretsmanager/secret:Secret": "kmsKeyId",
    "aws:sns/topic:Topic": "kmsMasterKeyId",
    "aws:sqs/queue:Queue": "kmsMasterKeyId",
    "aws:rds/cluster:Cluster": "kmsKeyId",
    "aws:rds/clusterInstance:ClusterInstance": "performanceInsightsKmsKeyId",
    "aws:elasticache/replicationGroup:ReplicationGroup": "kmsKeyId",
    "aws:cloudtrail/trail:Trail": "kmsKeyId",
    "aws:ecr/repository:Repository": "encryptionConfigurations.0.kmsKey",
    "aws:ecr/repositoryCreationTemplate:RepositoryCreationTemplate": "encryptionConfigurations.0.kmsKey",
}


def _part(view: View, token: str, prop: str) -> Iterator[tuple[Node, Node | None]]:
    for bucket in view.of(BUCKET):
        found = view.companions(token, prop, bucket)
        yield bucket, found[0] if found else None


@book.rule("bucket-own-key", "Every bucket is encrypted with a customer key of its own region, with bucket keys on")
def bucket_own_key(view: View) -> Iterator[Breach]:
    for bucket, config in _part(view, SSE, "bucket"):
        if bucket.name.startswith(NO_CUSTOMER_KEY):
            continue
        key = text(config.inputs, f"{_APPLIED}.kmsMasterKeyId") if config else ""
        ours = key == UNKNOWN or f":{bucket.region}:" in key
        if not config or not ours or not config.inputs.get("rules") or not _keyed(config):
            yield bucket, "give the bucket a key of its region: sseAlgorithm aws:kms, kmsMasterKeyId, bucketKeyEnabled"


def _keyed(config: Node) -> bool:
    return text(config.inputs, f"{_APPLIED}.sseAlgorithm") == "aws:kms" and bool(
        items(config.inputs, "rules.0.bucketKeyEnabled")[:1] == [True]
    )


@book.rule("bucket-private", "Every bucket blocks public access in all four ways")
def bucket_private(view: View) -> Iterator[Breach]:
    ways = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
    token = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
    for bucket, block in _part(view, token, "bucket"):
        if block is None or any(block.inputs.get(way) is not True for way in ways):
            yield bucket, f"set {', '.join(ways)} to true"


@book.rule("bucket-tls", "Every bucket and all its objects refuse plain HTTP and TLS below 1.2")
def bucket_tls(view: View) -> Iterator[Breach]:
    wanted = ("Bool.aws:SecureTransport", "NumericLessThan.s3:TlsVersion")
    for bucket, policy in _part(view, "aws:s3/bucketPolicy:BucketPolicy", "bucket"):
        if policy is None:
            yield bucket, "add a bucket policy that denies plain HTTP"
        elif UNKNOWN not in text(policy.inputs, "policy"):
            denials = [item for node, item in view.statements(policy.type) if node is policy and _denies_all(item)]
            if any(not any(_conditioned(item, path) for item in denials) for path in wanted):
                yield (
                    bucket,
                    "deny s3:* on bucket and objects for aws:SecureTransport false and s3:TlsVersion below 1.2",
                )


def _denies_all(statement: object) -> bool:
    body = statement if isinstance(statement, dict) else {}
    return text(body, "Effect") == "Deny" and items(body, "Action") == ["s3:*"] and len(items(body, "Resource")) > 1


def _conditioned(statement: object, path: str) -> bool:
    operator, key = path.split(".", maxsplit=1)
    body = statement if isinstance(statement, dict) else {}
    return key in body.get("Condition", {}).get(operator, {})


@book.rule("bucket-versioned", "Every bucket keeps versions")
def bucket_versioned(view: View) -> Iterator[Breach]:
    for bucket, config in _part(view, "aws:s3/bucketVersioning:BucketVersioning", "bucket"):
        if config is None or text(config.inputs, "versioningConfiguration.status") != "Enabled":
            yield bucket, "enable versioning"


@book.rule("bucket-owner", "Every bucket's objects belong to the account, without ACLs")
def bucket_owner(view: View) -> Iterator[Breach]:
    for bucket, config in _part(view, "aws:s3/bucketOwnershipControls:BucketOwnershipControls", "bucket"):
        if config is None or text(config.inputs, "rule.objectOwnership") != "BucketOwnerEnforced":
            yield bucket, "set objectOwnership to BucketOwnerEnforced"


@book.rule("bucket-multipart", "Every bucket forgets uploads that were never finished")
def bucket_multipart(view: View) -> Iterator[Breach]:
    token = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
    for bucket, config in _part(view, token, "bucket"):
        days = "rules.0.abortIncompleteMultipartUpload.daysAfterInitiation"
        if config is None or number(config.inputs, days) <= 0 or text(config.inputs, "rules.0.status") != "Enabled":
            yield bucket, "abort incomplete multipart uploads after some days"


@book.rule("replication-both-ways", "Artifacts replicate from each region to every other, in time", StackKind.MESH)
def replication_both_ways(view: View) -> Iterator[Breach]:
    regions = view.fleet.environment.regions
    found: dict[str, Node] = {}
    for node in view.of("aws:s3/bucketReplicationConfig:BucketReplicationConfig"):
        found[node.region] = node
    for region in regions if len(regions) > 1 else ():
        source = found.get(region)
        if source is None:
            yield None, f"add replication from {region}"
            continue
        targets = {other for other in regions if other != region}
        reached = {other for other in targets for rule in items(source.inputs, "rules") if _in_time(rule, other)}
        if reached != targets:
            yield (
                source,
                f"replicate to {sorted(targets - reached)} with time control, the target's key, deletions explicit",
            )


def _in_time(rule: object, region: str) -> bool:
    """S3 leaves out what is encrypted under KMS, which all is, unless a rule says otherwise.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/replication-config-for-kms-objects.html
    """
    body = rule if isinstance(rule, dict) else {}
    key = text(body, "destination.encryptionConfiguration.replicaKmsKeyId")
    return (
        text(body, "status") == "Enabled"
        and text(body, "destination.replicationTime.status") == "Enabled"
        and text(body, "sourceSelectionCriteria.sseKmsEncryptedObjects.status") == "Enabled"
        and text(body, "deleteMarkerReplication.status") in ("Enabled", "Disabled")
        and (key == UNKNOWN or f":{region}:" in key)
    )


@book.rule("audit-write-once", "The audit bucket is locked in compliance mode for a year or more", StackKind.GLOBAL)
def audit_write_once(view: View) -> Iterator[Breach]:
    lock = "aws:s3/bucketObjectLockConfiguration:BucketObjectLockConfiguration"
    audited = [bucket for bucket in view.of(BUCKET) if bucket.name.startswith("audit-")]
    if not audited:
        yield None, "add the audit bucket"
    for bucket in audited:
        held = view.companions(lock, "bucket", bucket)
        rule = "rule.defaultRetention"
        good = (
            held
            and text(held[0].inputs, f"{rule}.mode") == "COMPLIANCE"
            and number(held[0].inputs, f"{rule}.days") >= MIN_AUDIT_DAYS
        )
        if not good or bucket.inputs.get("objectLockEnabled") is not True:
            yield bucket, "lock objects in COMPLIANCE mode for at least 365 days"


@book.rule("audit-own-key", "The audit bucket's key encrypts nothing else", StackKind.GLOBAL)
def audit_own_key(view: View) -> Iterator[Breach]:
    users = Counter(urn for node in view.of(SSE) for urn in node.references.get("rules", ()))
    for bucket in view.of(BUCKET):
        if bucket.name.startswith("audit-"):
            keys = [
                urn for config in view.companions(SSE, "bucket", bucket) for urn in config.references.get("rules", ())
            ]
            if not any("::audit-" in urn for urn in keys) or any(users[urn] > 1 for urn in keys):
                yield bucket, "give the audit bucket the audit key and nothing else that key"


@book.rule("no-object-deletion", "No policy of ours allows deleting objects or shortening their retention")
def no_object_deletion(view: View) -> Iterator[Breach]:
    forbidden = ("s3:DeleteObject", "s3:DeleteObjectVersion", "s3:PutObjectRetention", "s3:BypassGovernanceRetention")
    for node, statement in view.statements():
        held = [action for action in allowed_actions(statement) if action in forbidden]
        if held:
            yield node, f"remove {', '.join(held)} from {text(statement, 'Sid')}"


@book.rule("keys-rotate", "Every key rotates within a year and waits thirty days before deletion")
def keys_rotate(view: View) -> Iterator[Breach]:
    for key in view.of("aws:kms/key:Key"):
        if text(key.inputs, "keyUsage") == "SIGN_VERIFY":
            continue  # KMS can't rotate it; a new signing key is a new alias and a release
        rotates = (
            key.inputs.get("enableKeyRotation") is True
            and 0 < number(key.inputs, "rotationPeriodInDays") <= ROTATION_DAYS
        )
        if not rotates:
            yield key, "enable rotation of at most 365 days"
    for key in view.of("aws:kms/key:Key", "aws:kms/replicaKey:ReplicaKey"):
        if number(key.inputs, "deletionWindowInDays") != DELETION_DAYS:
            yield key, "set deletionWindowInDays to 30"


@book.rule("keys-closed", "No key policy names everybody, and services use a key only under a condition")
def keys_closed(view: View) -> Iterator[Breach]:
    for node, statement in view.statements("aws:kms/key:Key", "aws:kms/replicaKey:ReplicaKey"):
        principal = items(statement, "Principal")
        if "*" in principal or "*" in items(statement, "Principal.AWS"):
            yield node, f"name the principals of {text(statement, 'Sid')}"
        sourceless = text(statement, "Sid") in SOURCELESS and items(statement, "Principal.Service") == [EVENTS]
        if items(statement, "Principal.Service") and not items(statement, "Condition") and not sourceless:
            yield node, f"add a condition to {text(statement, 'Sid')}"


@book.rule(
    "data-keys-travel", "Keys of data that crosses regions are multi-region, with a replica in each", StackKind.GLOBAL
)
def data_keys_travel(view: View) -> Iterator[Breach]:
    others = view.fleet.environment.regions[1:]
    for key in view.of("aws:kms/key:Key"):
        purpose = text(key.inputs, "tags.purpose")
        if purpose not in [wanted.value for wanted in MULTI_REGION]:
            continue
        replicas = {node.region for node in view.companions("aws:kms/replicaKey:ReplicaKey", "primaryKeyArn", key)}
        if key.inputs.get("multiRegion") is not True or not set(others) <= replicas:
            yield key, f"make it multi-region with replicas in {', '.join(others)}"


@book.rule("named-key", "Everything that can name a customer key names one")
def named_key(view: View) -> Iterator[Breach]:
    for token, path in NAMED_KEY.items():
        for node in view.of(token):
            if not text(node.inputs, path):
                yield node, f"set {path}"


@book.rule("registry-immutable", "Repositories never let a tag mean other bytes, and are scanned", StackKind.GLOBAL)
def registry_immutable(view: View) -> Iterator[Breach]:
    templates = "aws:ecr/repositoryCreationTemplate:RepositoryCreationTemplate"
    for node in view.of("aws:ecr/repository:Repository", templates):
        scanned = node.type == templates or node.inputs.get("imageScanningConfiguration") == {"scanOnPush": True}
        if text(node.inputs, "imageTagMutability") != "IMMUTABLE" or not scanned:
            yield node, "set imageTagMutability IMMUTABLE and scanOnPush"


@book.rule("registry-everywhere", "Images reach every region, under the same rules", StackKind.GLOBAL)
def registry_everywhere(view: View) -> Iterator[Breach]:
    others = set(view.fleet.environment.regions[1:])
    copied = {
        text(target, "region")
        for node in view.of("aws:ecr/replicationConfiguration:ReplicationConfiguration")
        for rule in items(node.inputs, "replicationConfiguration.rules")
        for target in items(rule, "destinations")
    }
    shaped = {node.region for node in view.of("aws:ecr/repositoryCreationTemplate:RepositoryCreationTemplate")}
    if not others <= copied or not others <= shaped:
        yield None, f"replicate to {sorted(others - copied)} and template {sorted(others - shaped)}"
