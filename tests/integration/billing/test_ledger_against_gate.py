"""The ledger is what the gates counted, for every API and every end that a request can have (B3, B6, finding 4)."""

from pathlib import Path

import pytest

from tests.support.scenarios.billing import run, site

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]


async def test_the_ledger_is_what_the_gates_counted(tmp_path: Path) -> None:
    """Of random requests that stay, leave at any time, run out of time or money, or break, no row is off by a token."""
    with site(tmp_path) as where:
        found = await run(where, 600, seed=1)
    assert found.differences == []
    assert found.inexact == 0
    assert found.requests > 500
    assert {"ok", "cancelled", "own_deadline", "engine_error"} <= found.outcomes.keys()
