"""Postgres, embedded or external: the one database. All SQL is in ``queries/``."""
