"""Postgres, embedded or external: the platform's one database. Ports are met by shape; all SQL is in ``queries/``."""
