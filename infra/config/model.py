"""The typed config: an environment, its regions, and what every stack is built from. Frozen; judged in `rules`."""

from dataclasses import dataclass

from infra.config.existing import Existing
from infra.config.pools import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long things are kept, in days."""

    audit_days: int
    log_days: int
    backup_days: int
    artifact_noncurrent_days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubernetes:
    """The cluster's version, the release of the images Karpenter boots, and every add-on pinned by version."""

    version: str
    node_release: str
    addons: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """Aurora PostgreSQL, a cluster with a writer of its own in each region."""

    engine_version: str
    instance_class: str
    instances: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """Valkey, one replication group per region: limits are regional, as the ledger is."""

    engine_version: str
    node_type: str
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerImage:
    """A container image by digest; a tag would let the same name mean other bytes tomorrow."""

    repository: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A third-party operator, pinned. Charts are mirrored into the account's own registry before use."""

    version: str
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Size and life of the gateway, the controller or the jobs runner."""

    min_replicas: int
    max_replicas: int
    cpu: str
    memory: str
    drain_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """The pipeline that builds, mirrors and signs images, known by its OpenID Connect issuer and its subjects."""

    issuer: str
    subjects: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Monthly ceilings in USD per stack kind; `make infra-cost` fails above them."""

    global_usd: int
    region_usd: int
    platform_usd: int
    serving_usd: int
    mesh_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One region: its address plan, its zones by id (names differ per account), its pools in the order of filling.

    With `existing`, `cidr` is that network's own.
    """

    name: str
    cidr: str
    zone_ids: tuple[str, ...]
    pools: tuple[Pool, ...]
    quotas_vcpu: dict[str, int]
    asymmetries: tuple[str, ...] = ()
    existing: Existing | None = None

    @property
    def cluster(self) -> str:
        """The name of the cluster that is there already; empty if it is made here."""
        return self.existing.cluster if self.existing else ""

    def pool(self, name: str) -> Pool:
        """The pool of that name. Raises `KeyError` if the region has none."""
        return {pool.name: pool for pool in self.pools}[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Everything that is true in all regions of one environment. The first region is the primary."""

    name: str
    organization: str
    account_id: str
    domain: str
    owner: str
    cost_centre: str
    alert_email: str
    administrators: tuple[str, ...]
    regions: tuple[str, ...]
    allowed_networks: tuple[str, ...]
    retention: Retention
    kubernetes: Kubernetes
    database: Database
    cache: Cache
    answers: Cache
    budgets: Budgets
    gateway: Workload
    controller: Workload
    runner: Workload
    worker_drain_s: int
    images: dict[str, ContainerImage]
    charts: dict[str, Chart]
    publisher: Publisher | None = None
    keep: bool = True
    """Whether what holds data outlives `pulumi destroy`; `false` before an environment is taken down for good."""
    anomaly_watch: bool = False
    """AWS lets only the account that pays the bill watch a tag, once somebody has opened Cost Explorer there."""
    account_has: tuple[str, ...] = ()
    """What exists once per account and is there already, used and not made: services with a linked role, the
    publisher's issuer as identity provider."""

    @property
    def signing_alias(self) -> str:
        """The key that release images are signed with, under one alias in every region."""
        return f"alias/{self.organization}-{self.name}-image-signing"

    @property
    def model_signing_alias(self) -> str:
        """The key that model versions are signed with, under one alias in every region."""
        return f"alias/{self.organization}-{self.name}-model-signing"

    @property
    def chain_signing_alias(self) -> str:
        """The key that heads of the platform's audit chain are signed with, under one alias in every region."""
        return f"alias/{self.organization}-{self.name}-audit-signing"

    @property
    def state_bucket(self) -> str:
        """Pulumi's own bucket, made by hand; named as ours are, so that the network's endpoint lets it through."""
        return f"{self.organization}-{self.name}-{self.account_id}-state"

    @property
    def primary(self) -> str:
        """The home of what exists once: the key originals, the registry originals, the record. It serves no request."""
        return self.regions[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """An environment with all of its regions: what one `load` gives and every stack takes."""

    environment: Environment
    regions: tuple[Region, ...]

    def region(self, name: str) -> Region:
        """The region of that name. Raises `KeyError` if the environment has none."""
        return {region.name: region for region in self.regions}[name]
