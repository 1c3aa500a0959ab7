"""What a start says of the certificates of its home."""

from pathlib import Path

import pytest

from penstock.local import certificates
from penstock.settings import Settings
from penstock.settings.told import Tls
from tests.support.clock import ManualClock


@pytest.mark.parametrize(
    ("tls", "ran_with_it", "told"),
    [
        (Tls.OFF, False, ""),
        (Tls.OFF, True, "no TLS, though this home ran with it: --tls"),
        (Tls.ON, False, "mutual TLS"),
    ],
)
def test_a_start_without_tls_is_not_silent_where_there_was_some(
    tmp_path: Path, tls: Tls, ran_with_it: bool, told: str
) -> None:
    """A person who forgets `--tls` reads it in the first line of the start."""
    if ran_with_it:
        certificates.ensure(Settings(home=tmp_path, tls=Tls.ON), ManualClock())
    assert certificates.told(Settings(home=tmp_path, tls=tls)) == told
