import re

import pytest

from penstock.domain.ids import Alias, TenantId
from penstock.domain.tenancy.keys import (
    KEY_CHARS,
    Purpose,
    cache_salt,
    derive,
    hash_secret,
    is_well_formed,
    key_id_of,
    mint,
)
from penstock.domain.tenancy.tenant import Role

PLATFORM_KEY = bytes(range(32))
PEPPER = derive(PLATFORM_KEY, Purpose.PEPPER)


def test_a_minted_key_is_found_by_its_id_and_stored_as_a_hash_only() -> None:
    """The secret carries the record's id, and the record does not carry the secret."""
    secret, record = mint(TenantId("acme"), pepper=PEPPER, now=5.0, role=Role.ADMIN, models=(Alias("m"),))
    assert re.fullmatch(r"psk_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}", secret)
    assert len(secret) == KEY_CHARS
    assert key_id_of(secret) == record.id
    assert record.secret_hash == hash_secret(secret, PEPPER)
    assert secret not in repr(record)
    assert (record.tenant, record.role, record.models, record.created_at) == ("acme", Role.ADMIN, ("m",), 5.0)


def test_minted_keys_differ() -> None:
    """No two keys share an id or a hash."""
    keys = [mint(TenantId("acme"), pepper=PEPPER, now=0.0)[1] for _ in range(50)]
    assert len({k.id for k in keys}) == len({k.secret_hash for k in keys}) == 50


def test_the_checksum_finds_every_changed_character() -> None:
    """A scanner can tell a mistyped key from a real one without the database."""
    secret, _ = mint(TenantId("acme"), pepper=PEPPER, now=0.0)
    assert is_well_formed(secret)
    for i in range(4, len(secret)):
        changed = secret[:i] + ("0" if secret[i] != "0" else "1") + secret[i + 1 :]
        assert not is_well_formed(changed), i


@pytest.mark.parametrize(
    "text", ["", "psk_", "sk-abc", "psk_" + "a" * (KEY_CHARS - 4), "x" * KEY_CHARS, "é" * KEY_CHARS]
)
def test_text_that_is_no_key_has_no_id(text: str) -> None:
    """Anything else is refused before a lookup."""
    assert key_id_of(text) is None
    assert not is_well_formed(text)


def test_derived_keys_are_apart_and_stable() -> None:
    """Each purpose has its own key, the same in every process."""
    keys = {purpose: derive(PLATFORM_KEY, purpose) for purpose in Purpose}
    assert len(set(keys.values())) == len(Purpose)
    assert keys[Purpose.PEPPER].hex() == "50eeeb1d9d34b4777574fc249cf6b345f065f818bc7e9d6fe8b4da369ddf0265"
    assert all(len(k) == 32 for k in keys.values())


def test_tenants_have_different_salts() -> None:
    """Prefix caches of two tenants never meet; one tenant's is stable."""
    key = derive(PLATFORM_KEY, Purpose.CACHE_SALT)
    assert cache_salt(TenantId("a"), key) == cache_salt(TenantId("a"), key) != cache_salt(TenantId("b"), key)
