"""Postgres, embedded or external: the only database. All SQL is in ``queries/``."""
