"""Needs that several processes share."""

from penstock.contract.nouns import Called, Folder, Life, Port, Probe, Secret
from penstock.telemetry import pages

MIB, GIB = 1 << 20, 1 << 30
SOON = "within seconds"
AT_START = "at the start"

PRIVATE = 9464
"""The port of metrics and detailed health, if the fleet fixes it."""
LIVE = Probe(port="private", path=pages.LIVE, meaning="The process runs. A no wants a restart.", start_within_s=30)


def private(meaning: str) -> Port:
    return Port(name="private", setting="metrics_port", number=PRIVATE, callers=("probes", "metrics"), meaning=meaning)


def authority(store: str, called: str, *, optional: bool) -> Secret:
    return Secret(
        setting=f"{store}_ca_file",
        name=f"{store}-ca",
        reread="at each new connection",
        exchangeable=False,
        optional=optional,
        meaning=f"The authority of {called}'s certificate, as PEM; several in one file are all trusted.",
    )


def password(store: str, meaning: str, *, name: str = "") -> Secret:
    return Secret(
        setting=f"{store}_password_file",
        name=name or f"{store}-password",
        reread="at each new connection",
        exchangeable=False,
        meaning=meaning,
    )


PLATFORM_KEY = Secret(
    setting="platform_key_file",
    name="platform-key",
    reread=SOON,
    exchangeable=True,
    meaning="The same in all processes of all regions: workers' secrets and cache salts are derived from it.",
)
PEPPER = Secret(
    setting="pepper_file",
    name="api-key-pepper",
    reread=SOON,
    exchangeable=True,
    meaning="The same in all processes of all regions; an API key works for as long as the pepper that hashed it.",
)
CERTIFICATE = ("tls_cert_file", "tls_key_file", "tls_ca_file")
STORES_AND_KEYS = ("database_url", "database_user", "platform_key_file", "pepper_file", *CERTIFICATE, "limits_url")
"""Settings that gateways and controllers need alike."""
LIMITS_PASSWORD = password("limits", "The password of the limits' store.")
DATABASE_CA = authority("database", "the database", optional=False)
LIMITS_CA = authority("limits", "the limits' store", optional=True)
LIMITS = Called(to="limits", setting="limits_url", port="redis", meaning="The Redis or Valkey of limits and budgets.")
ARTIFACTS = Called(to="artifacts", setting="artifact_store", port="https", meaning="S3: model versions.")

PAYLOADS = Called(
    to="payloads", setting="payloads_url", port="https", meaning="S3: requests and results of jobs, sealed."
)
KEYS = Called(
    to="keys", setting="sealing_key", port="https", meaning="KMS: wraps the keys that stored content is sealed with."
)
WORKERS_AND_TRACES = (
    Called(to="worker", setting="", port="gate", meaning="Requests; where workers are, the routing table says."),
    Called(to="collector", setting="otlp_endpoint", port="http", meaning="Traces, where that is wanted."),
)
EXITS = ((0, "ended in good order"), (1, "can't start or go on; the log's last line says why"))


def database(role: str = "") -> Called:
    return Called(to="database", setting="database_url", port="postgresql", role=role, meaning="Postgres, the writer.")


def secrets(process: str) -> tuple[Secret, ...]:
    """Return the secrets that gateways and controllers have alike."""
    own = password("database", "The password of this process's own role.", name=f"{process}-database-password")
    return PLATFORM_KEY, PEPPER, own, LIMITS_PASSWORD, DATABASE_CA, LIMITS_CA


def granted_password(process: str) -> Secret:
    return Secret(
        setting=f"{process}_database_password_file",
        name=f"{process}-database-password",
        reread="at the start",
        exchangeable=False,
        meaning=f"The password that the role of the {process} gets.",
    )


TEMPORARY = Folder(
    name="temporary",
    setting="TMPDIR",
    path="/tmp",  # noqa: S108  a mount of its own
    size_bytes=256 * MIB,
    life=Life.PROCESS,
    meaning="Short-lived files.",
)


def home(size_bytes: int, life: Life, meaning: str) -> Folder:
    return Folder(
        name="home", setting="home", path="/var/lib/penstock", size_bytes=size_bytes, life=life, meaning=meaning
    )
