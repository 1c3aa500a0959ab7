import pytest

from loadtests.conduct import keys_of


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        ([], {}),
        (["psk_1"], {"": "psk_1"}),
        (["reader=psk_1", "flood=psk_2", "psk_3"], {"reader": "psk_1", "flood": "psk_2", "": "psk_3"}),
        (["YWJj=="], {"": "YWJj=="}),
        (["reader=YWJj=="], {"reader": "YWJj=="}),
    ],
)
def test_keys_are_read_by_tenant(words: list[str], keys: dict[str, str]) -> None:
    """A key may belong to one tenant or to all others, and padding at its end makes nobody a tenant."""
    assert keys_of(words) == keys
