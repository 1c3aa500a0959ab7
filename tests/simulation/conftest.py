"""Time limits for simulations: they only compute, so their seconds depend on the machine's other load."""

from pathlib import Path

import pytest

PATIENCE_S = 1800


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each a time that tells a loop without an end from a machine that is taken."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PATIENCE_S))
