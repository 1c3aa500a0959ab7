"""Policy documents: named actions on named things, for principals that are named, as AWS reads them."""

from collections import Counter
from collections.abc import Iterator
from functools import cache

from infra.config.kinds import Purpose, StackKind
from infra.graph.nodes import Node
from infra.graph.values import UNKNOWN, Json, items, parsed, text
from infra.policy.invariant import Book, Breach
from infra.policy.view import DOCUMENTS, View, allowed_actions

book = Book()

ROLE = "aws:iam/role:Role"
EVENTS = "events.amazonaws.com"
SOURCELESS = {"EventsUsesKey": "EventBridge names no source when it publishes to a topic, so no condition could hold"}
"""Statements of key policies that let a service in without a condition, and why."""

IDENTITY_DOCUMENTS = ("aws:iam/rolePolicy:RolePolicy", "aws:iam/policy:Policy")

WHOLE_SERVICE = {"AccountAdministersKey": "a key policy delegates to IAM, or the key is lost for ever"}
"""Statements that may allow every action of a service, and why."""

DATA_ACTIONS = ("s3:", "kms:", "secretsmanager:", "rds-db:")
NODE_POLICIES = frozenset(
    f"arn:aws:iam::aws:policy/{name}"
    for name in ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore")
)


@book.rule("actions-named", "No statement allows everything, or a whole service, but the listed one")
def actions_named(view: View) -> Iterator[Breach]:
    for node, statement in view.statements():
        broad = [action for action in allowed_actions(statement) if action == "*" or action.endswith(":*")]
        if broad and text(statement, "Sid") not in WHOLE_SERVICE:
            yield node, f"name the actions of {text(statement, 'Sid')} instead of {', '.join(broad)}"


@book.rule("resources-named", "A statement that reaches every resource stands under a condition")
def resources_named(view: View) -> Iterator[Breach]:
    for node, statement in view.statements(*IDENTITY_DOCUMENTS):
        if allowed_actions(statement) and "*" in items(statement, "Resource") and not items(statement, "Condition"):
            yield node, f"name the resources of {text(statement, 'Sid')} or add a condition"


@book.rule(
    "principals-named", "Nobody is trusted as anybody: an open principal needs a condition or a private endpoint"
)
def principals_named(view: View) -> Iterator[Breach]:
    for node, statement in view.statements():
        anybody = "*" in items(statement, "Principal") or "*" in items(statement, "Principal.AWS")
        allows = text(statement, "Effect") == "Allow" and node.type != "aws:ec2/vpcEndpoint:VpcEndpoint"
        if anybody and allows and not items(statement, "Condition"):
            yield node, f"name the principal of {text(statement, 'Sid')}"


@book.rule("documents-sound", "Every policy document is sound: actions exist, resources fit them, conditions parse")
def documents_sound(view: View) -> Iterator[Breach]:
    for token in IDENTITY_DOCUMENTS:
        for node in view.of(token):
            document = text(node.inputs, DOCUMENTS[token])
            if UNKNOWN not in document:
                for finding in findings(document):
                    yield node, finding


TOLERATED = frozenset({"RESOURCE_STAR", "RESOURCE_EFFECTIVELY_STAR", "RESOURCE_POLICY_PRIVILEGE_ESCALATION"})
"""What another invariant judges with more knowledge (`resources-named`)."""

NEWER_THAN_TABLE = ("aws:ViaAWSService", "kms:ResourceAliases", "arc-zonal-shift:ResourceIdentifier")
"""Condition keys that AWS documents and parliament's table does not know yet."""

OVER_SEVERAL_STATEMENTS = frozenset({"ec2:RunInstances", "ec2:CreateFleet", "ec2:AttachVolume", "ec2:DetachVolume"})
"""Actions on several kinds of resource whose kinds stand in different statements, under different conditions."""

WITHOUT_ACCOUNT = frozenset({"ssm:GetParameter"})
"""AWS's public parameters belong to no account; parliament's table wants one in the ARN."""


@cache
def findings(document: str) -> tuple[str, ...]:
    """What parliament finds in a document, less what is known to be no fault."""
    from parliament import analyze_policy_string  # noqa: PLC0415 - reads a large table at import

    found = analyze_policy_string(document).findings
    return tuple(f"{one.issue}: {one.detail}" for one in found if not _known_to_be_fine(one.issue, one.detail))


def _known_to_be_fine(issue: str, detail: object) -> bool:
    if issue == "UNKNOWN_CONDITION_FOR_ACTION":
        return any(key in str(detail) for key in NEWER_THAN_TABLE)
    if issue == "RESOURCE_MISMATCH" and isinstance(detail, list):
        return all(text(item, "action") in OVER_SEVERAL_STATEMENTS | WITHOUT_ACCOUNT for item in detail)
    return issue in TOLERATED


@book.rule("pods-by-identity", "Pod roles trust EKS for this cluster alone, one per service account", StackKind.REGION)
def pods_by_identity(view: View) -> Iterator[Breach]:
    roles = {node.urn: node for node in view.of(ROLE)}
    seen: Counter[tuple[str, str]] = Counter()
    for association in view.of("aws:eks/podIdentityAssociation:PodIdentityAssociation"):
        seen[(text(association.inputs, "namespace"), text(association.inputs, "serviceAccount"))] += 1
        for urn in association.references.get("roleArn", ()):
            if not _trusts_pods(roles[urn].inputs.get("assumeRolePolicy")):
                yield roles[urn], "trust pods.eks.amazonaws.com with aws:SourceAccount and aws:SourceArn"
    for (namespace, account), count in seen.items():
        if count > 1:
            yield None, f"{namespace}/{account} has {count} identities; keep one"


def _trusts_pods(document: object) -> bool:
    statements = items(parsed(document if isinstance(document, str) else None), "Statement")
    if isinstance(document, str) and UNKNOWN in document:
        return True
    return bool(statements) and all(
        items(statement, "Principal.Service") == ["pods.eks.amazonaws.com"]
        and bool(items(statement, "Condition.StringEquals"))
        and bool(items(statement, "Condition.ArnEquals"))
        for statement in statements
    )


@book.rule("nodes-hold-nothing", "The nodes' role reaches no data: pods bring their own rights", StackKind.REGION)
def nodes_hold_nothing(view: View) -> Iterator[Breach]:
    node_roles = {node.urn for node in view.of(ROLE) if node.name.startswith("node-")}
    for attachment in view.of("aws:iam/rolePolicyAttachment:RolePolicyAttachment"):
        held = node_roles & set(attachment.references.get("role", ()))
        if held and text(attachment.inputs, "policyArn") not in NODE_POLICIES:
            yield attachment, "detach it from the nodes' role"
    for policy, statement in view.statements("aws:iam/rolePolicy:RolePolicy"):
        if node_roles & set(policy.references.get("role", ())):
            touched = [action for action in allowed_actions(statement) if action.startswith(DATA_ACTIONS)]
            if touched:
                yield policy, f"move {', '.join(touched)} to a pod identity"


@book.rule(
    "no-object-deletion",
    "No policy of ours deletes objects, but for payloads of jobs, or shortens their retention",
)
def no_object_deletion(view: View) -> Iterator[Breach]:
    forbidden = ("s3:DeleteObject", "s3:DeleteObjectVersion", "s3:PutObjectRetention", "s3:BypassGovernanceRetention")
    for node, statement in view.statements():
        held = [action for action in allowed_actions(statement) if action in forbidden]
        known = _ends_payloads(view, held, statement) or _locks_segments(view, held, statement)
        if held and not known and not _lets_locks_go(view, node, statement):
            yield node, f"remove {', '.join(held)} from {text(statement, 'Sid')}"


def _lets_locks_go(view: View, node: Node, statement: Json) -> bool:
    """Whether a network's endpoint, which grants nothing itself, lets through that Pulumi ends its own locks."""
    locks = f"arn:aws:s3:::{view.fleet.environment.state_bucket}/.pulumi/*"
    return node.type == "aws:ec2/vpcEndpoint:VpcEndpoint" and items(statement, "Resource") == [locks]


def _ends_payloads(view: View, held: list[str], statement: Json) -> bool:
    """Whether objects are deleted in the buckets of sealed requests and results alone, and no versions of them."""
    one = view.fleet.environment
    buckets = f"arn:aws:s3:::{one.organization}-{one.name}-{one.account_id}-{Purpose.PAYLOADS}-"
    resources = items(statement, "Resource")
    named = bool(resources) and all(str(item).startswith(buckets) for item in resources)
    return named and held == ["s3:DeleteObject"]


def _locks_segments(view: View, held: list[str], statement: Json) -> bool:
    """Whether segments of the audit chain alone get a retention, and only one that nobody can shorten."""
    one = view.fleet.environment
    folder = f"arn:aws:s3:::{one.organization}-{one.name}-{one.account_id}-{Purpose.AUDIT}-{one.primary}/platform/"
    resources = items(statement, "Resource")
    mode = items(statement, "Condition.StringEquals.s3:object-lock-mode")
    named = bool(resources) and all(str(item).startswith(folder) for item in resources)
    return named and held == ["s3:PutObjectRetention"] and mode == ["COMPLIANCE"]


@book.rule(
    "keys-in-context", "Tenants' keys are wrapped and opened for a tenant, purpose and region alone", StackKind.REGION
)
def keys_in_context(view: View) -> Iterator[Breach]:
    sealing = {
        text(node.outputs, "arn") for node in view.of("aws:kms/key:Key") if node.name.startswith(Purpose.SEALING)
    }
    for node, statement in view.statements(*IDENTITY_DOCUMENTS):
        used = {"kms:Encrypt", "kms:Decrypt"} & {*allowed_actions(statement)}
        ours = "kms:Encrypt" in used or sealing & {str(item) for item in items(statement, "Resource")}
        if used and ours and not _in_context(view, statement):
            yield node, f"hold {text(statement, 'Sid')} to an encryption context of tenant, purpose and this region"


def _in_context(view: View, statement: Json) -> bool:
    region = items(statement, "Condition.StringEquals.kms:EncryptionContext:region")
    purpose = items(statement, "Condition.StringEquals.kms:EncryptionContext:purpose")
    tenant = items(statement, "Condition.Null.kms:EncryptionContext:tenant")
    return region == [view.region_name] and bool(purpose) and tenant == ["false"]


@book.rule("keys-closed", "No key policy names everybody, and services use a key only under a condition")
def keys_closed(view: View) -> Iterator[Breach]:
    for node, statement in view.statements("aws:kms/key:Key", "aws:kms/replicaKey:ReplicaKey"):
        principal = items(statement, "Principal")
        if "*" in principal or "*" in items(statement, "Principal.AWS"):
            yield node, f"name the principals of {text(statement, 'Sid')}"
        sourceless = text(statement, "Sid") in SOURCELESS and items(statement, "Principal.Service") == [EVENTS]
        if items(statement, "Principal.Service") and not items(statement, "Condition") and not sourceless:
            yield node, f"add a condition to {text(statement, 'Sid')}"
