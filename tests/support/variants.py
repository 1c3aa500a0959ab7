"""Variants of a test that only `make drills` runs: `make test` judges a law at its hardest case."""

from collections.abc import Iterable

import pytest


def drilled(values: Iterable[object]) -> list[object]:
    """Return parameters for ``pytest.mark.parametrize``, each marked as a drill; a tuple has several arguments."""
    return [pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=pytest.mark.drill) for one in values]
