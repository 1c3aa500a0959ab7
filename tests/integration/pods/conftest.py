"""One cluster for the session's tests of pods."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pods.site import Site, site

ENVIRONMENT = "dev"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Site]:
    """Yield a cluster with nothing started. Its folder is not pytest's: Postgres has another account than root."""
    with tempfile.TemporaryDirectory(prefix="penstock-pods-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with site(Path(folder), ENVIRONMENT) as found:
            yield found
