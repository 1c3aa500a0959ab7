"""Real controllers on a real Postgres."""

from tests.support.clusters.fleet import kube_server
from tests.support.stores.postgres import (
    database,
    database_dsn,
    own_server,
    postgres_dsn,
    postgres_server,
    server_home,
)

__all__ = ["database", "database_dsn", "kube_server", "own_server", "postgres_dsn", "postgres_server", "server_home"]
