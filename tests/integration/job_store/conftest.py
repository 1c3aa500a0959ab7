"""A real Postgres for the store of jobs."""

from tests.support.stores.postgres import database, database_dsn, postgres_dsn, postgres_server

__all__ = ["database", "database_dsn", "postgres_dsn", "postgres_server"]
