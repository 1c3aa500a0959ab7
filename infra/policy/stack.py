"""What no table says: tags, providers, spelling, open doors, written secrets, and what a stack costs."""

import re
from collections.abc import Iterator

from infra.components.labels import POOL
from infra.config.kinds import StackKind
from infra.config.rules import HEALTH_METRICS_REGION
from infra.estimate.report import estimate
from infra.graph.nodes import Node
from infra.graph.sdk import resource_class
from infra.graph.values import UNKNOWN, items, mapping, number, parsed, text, texts
from infra.policy.invariant import Book, Breach
from infra.policy.shipped import standing, workloads
from infra.policy.view import View, pod_spec

book = Book()

OPEN = ("0.0.0.0/0", "::/0")
ALB_GROUP = "alb"
HTTPS = 443
TAGS = ("owner", "environment", "region", "cost-centre", "data-class")
HEADLESS = "spec.clusterIP"
UNRESOLVED = "Calling __str__ on an Output"
LONGEST_WAIT_S = 600
SKIP = "pulumi.com/skipAwait"
SECRET_NAME = re.compile(r"(?i)(password|secret|token|pepper|api_?key|(database|limits|answers)_url)(?!\w*_file)")
LONG_RANDOM = re.compile(
    r"(?=[A-Za-z0-9+/_-]*[a-z])(?=[A-Za-z0-9+/_-]*[A-Z])(?=[A-Za-z0-9+/_-]*[0-9])[A-Za-z0-9+/_-]{32,}"
)


@book.rule("no-open-ingress", "Nothing is open to the world but the load balancer's 443")
def no_open_ingress(view: View) -> Iterator[Breach]:
    for node in view.of("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"):
        exposed = text(node.inputs, "cidrIpv4") in OPEN or text(node.inputs, "cidrIpv6") in OPEN
        group = node.references.get("securityGroupId", ())
        balancer = any(urn.endswith(f"::{ALB_GROUP}") for urn in group)
        if exposed and not (balancer and number(node.inputs, "fromPort") == number(node.inputs, "toPort") == HTTPS):
            yield node, "name the network or the group that may come in"
    for node in view.of("aws:ec2/securityGroup:SecurityGroup"):
        if any(str(block) in OPEN for rule in items(node.inputs, "ingress") for block in items(rule, "cidrBlocks")):
            yield node, "write rules as resources of their own"


@book.rule("tagged", "Everything that can carry tags says whose it is, where, for whom and how sensitive")
def tagged(view: View) -> Iterator[Breach]:
    for node in view.aws():
        cls = resource_class(node.type) if not node.type.startswith("aws:index") else None
        prop = "resourceTags" if node.type.endswith(":RepositoryCreationTemplate") else "tags"
        if cls is not None and isinstance(getattr(cls, _snake(prop), None), property):
            lacking = [key for key in TAGS if not items(node.inputs.get(prop), key)]
            if lacking:
                yield node, f"add the tags {', '.join(lacking)}"


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


@book.rule("explicit-provider", "Every resource names its provider, and stands in the stack's regions")
def explicit_provider(view: View) -> Iterator[Breach]:
    regions = {view.region_name} if view.region_name else set(view.fleet.environment.regions)
    if view.kind is StackKind.MESH:
        regions.add(HEALTH_METRICS_REGION)
    for node in view.graph.resources():
        if not node.provider or "default" in node.provider.rsplit("::", maxsplit=2)[-2]:
            yield node, "pass the stack's provider"
        if node.type.startswith("aws:") and node.region not in regions:
            yield node, f"is in {node.region or 'no region'}; use one of {sorted(regions)}"


@book.rule("inputs-resolved", "No input is the text of an unresolved output, and none is null inside", as_written=True)
def inputs_resolved(view: View) -> Iterator[Breach]:
    for node in view.graph.nodes:
        broken = [
            path for path, value in texts(node.inputs) if UNRESOLVED in value or (value == "None" and path != HEADLESS)
        ]
        if broken:
            yield node, f"resolve {', '.join(broken)} with apply or concat"


@book.rule(
    "inputs-spelled",
    "AWS inputs are spelled as the engine has them: no snake_case key slips through",
    as_written=True,
)
def inputs_spelled(view: View) -> Iterator[Breach]:
    for node in view.aws():
        wrong = sorted(_snakes(node))
        if wrong:
            yield node, f"spell {', '.join(wrong)} in the SDK's classes"


FREE_KEYS = ("tags", "dimensions", "resourceTags", "labels", "parameters")


def _snakes(node: Node) -> set[str]:
    found = set()
    for path, _ in texts(node.inputs):
        steps = path.split(".")
        if steps[0] not in FREE_KEYS and "tags" not in steps:
            found |= {step for step in steps if "_" in step}
    return found


@book.rule("references-whole", "No required reference came out empty", as_written=True)
def references_whole(view: View) -> Iterator[Breach]:
    for node in view.aws():
        empty = [path for path, value in texts(node.inputs) if not value and not path.endswith("prefix")]
        if empty and UNKNOWN not in empty:
            yield node, f"{', '.join(empty)} is empty: the output it comes from does not exist"


@book.rule(
    "no-secret-literals",
    "No manifest holds a secret; they are references to Secrets Manager",
    StackKind.PLATFORM,
    StackKind.SERVING,
)
def no_secret_literals(view: View) -> Iterator[Breach]:
    for node in workloads(view):
        for container in (*items(pod_spec(node), "containers"), *items(pod_spec(node), "initContainers")):
            for item in items(container, "env"):
                value = text(item, "value")
                named = SECRET_NAME.search(text(item, "name")) and value
                if named or (LONG_RANDOM.search(value) and value != UNKNOWN):
                    yield node, f"take {text(item, 'name')} from a secretKeyRef"


@book.rule(
    "late-starters",
    "An update waits for no pod that may need longer than it waits, or that needs what comes after it",
    StackKind.SERVING,
)
def late_starters(view: View) -> Iterator[Breach]:
    for node in standing(view):
        if mapping(node.inputs, "metadata.labels").get("app.kubernetes.io/managed-by") != "penstock-infra":
            continue  # no update waits for what the controller makes
        start_s = number(node.inputs, "spec.progressDeadlineSeconds")
        late = start_s > LONGEST_WAIT_S or text(node.inputs, "metadata.name") == "gateway"
        if late and mapping(node.inputs, "metadata.annotations").get(SKIP) != "true":
            yield node, f"annotate it with {SKIP}"


@book.rule(
    "kubeconfig-clean",
    "The kubeconfig holds no credential: a token is made at each use",
    StackKind.PLATFORM,
    StackKind.SERVING,
)
def kubeconfig_clean(view: View) -> Iterator[Breach]:
    for node in view.of("pulumi:providers:kubernetes"):
        config = parsed(node.inputs.get("kubeconfig"))
        users = items(config, "users")
        if config is not None and (not users or any(set(mapping(user, "user")) != {"exec"} for user in users)):
            yield node, "authenticate with exec alone"


@book.rule("within-budget", "The stack's month at the size it keeps stays under the config's budget")
def within_budget(view: View) -> Iterator[Breach]:
    planned = {pool.name for pool in view.region.pools} if view.region_name else set()
    groups = view.of("aws:eks/nodeGroup:NodeGroup")
    strangers = [node for node in groups if mapping(node.inputs, "labels").get(POOL) not in planned]
    if strangers:
        yield strangers[0], "add its pool to the config: it has no planned price"
        return
    region = view.region if view.region_name else None
    month = estimate(view.fleet.environment, view.kind, view.graph, region)
    if not month.within:
        yield (
            None,
            f"{month.label} costs {month.usd:,.0f} a month, the budget is {month.budget_usd:,}: shrink or decide",
        )
