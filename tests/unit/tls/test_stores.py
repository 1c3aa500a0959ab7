"""A store on another machine is verified, or what is wrong is named."""

import pytest

from penstock.tls.stores import unverified


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("", ""),
        ("postgresql://u@/p?host=/run/pg", ""),
        ("postgresql://u@127.0.0.1:5432/p", ""),
        ("postgresql://u@[::1]/p", ""),
        ("postgresql://u:x@db:5432/p?sslmode=verify-full&sslrootcert=/ca", ""),
        ("host=db user=u sslmode=verify-full", ""),
        ("postgresql://u:x@db:5432/p", "with sslmode=prefer"),
        ("postgresql://u@db/p?sslmode=require", "with sslmode=require"),
        ("postgresql://u@db/p?sslmode=verify-ca", "with sslmode=verify-ca"),
        ("postgresql://u@localhost,db:5432/p", "with sslmode=prefer"),
        ("postgresql://u@/p?host=db", "with sslmode=prefer"),
        ("host=db user=u", "with sslmode=prefer"),
        ("rediss://:x@cache:6379/0", ""),
        ("redis://localhost:6379/0", ""),
        ("unix:///run/redis.sock", ""),
        ("redis://cache:6379/0", "in the clear"),
        ("redis://127.0.0.1.example:6379", "in the clear"),
    ],
)
def test_a_store_on_another_machine_is_verified_or_not(address: str, why: str) -> None:
    """Encryption alone is no proof of who answers: only the full check of the name counts, or the same machine."""
    assert unverified(address) == why
