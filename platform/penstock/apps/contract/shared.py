"""What several processes need alike."""

from penstock.apps.contract.nouns import Called, Folder, Life, Secret

MIB, GIB = 1 << 20, 1 << 30
SOON = "within seconds"
EACH_CONNECTION = "at each new connection"
AT_START = "at the start"

PRIVATE = 9464
"""The port of metrics and health in detail, where a fleet fixes it."""

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
DATABASE_PASSWORD = Secret(
    setting="database_password_file",
    name="database-password",
    reread=EACH_CONNECTION,
    exchangeable=False,
    meaning="The password of this process's own role.",
)
LIMITS_PASSWORD = Secret(
    setting="limits_password_file",
    name="limits-password",
    reread=EACH_CONNECTION,
    exchangeable=False,
    meaning="The password of the limits' store.",
)
DATABASE = Called(to="database", setting="database_url", port="postgresql", meaning="Postgres, the writer.")
LIMITS = Called(to="limits", setting="limits_url", port="redis", meaning="The Redis or Valkey of limits and budgets.")
ARTIFACTS = Called(to="artifacts", setting="artifact_store", port="https", meaning="S3: model versions.")
TEMPORARY = Folder(
    name="temporary",
    setting="TMPDIR",
    path="/tmp",  # noqa: S108  a mount of its own
    size_bytes=256 * MIB,
    life=Life.PROCESS,
    meaning="Short-lived files.",
)


def home(size_bytes: int, life: Life, meaning: str) -> Folder:
    """Return the folder that the process writes to."""
    return Folder(
        name="home", setting="home", path="/var/lib/penstock", size_bytes=size_bytes, life=life, meaning=meaning
    )
