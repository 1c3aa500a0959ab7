"""What errors look like to operators and workers."""

from collections.abc import Iterator
from dataclasses import asdict

import pytest

from penstock.control.api.errors import fields_of, status_of
from penstock.domain.errors import Failed, InvalidField, PenstockError, StoreUnavailable


def leaves(kind: type[PenstockError]) -> Iterator[type[PenstockError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from leaves(child)


# Rooms may have errors of their own that never get here.
KINDS = tuple(kind for kind in dict.fromkeys(leaves(PenstockError)) if kind.__module__ == PenstockError.__module__)


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_has_a_status_and_a_body(kind: type[PenstockError]) -> None:
    """Each class of the tree maps to an error status, and its body has the four fields."""
    error = kind()
    assert 400 <= status_of(error) <= 503
    assert set(asdict(fields_of(error))) == {"message", "code", "param", "retryable"}
    assert (status_of(error) < 500) or not isinstance(error, InvalidField)


def test_only_what_never_started_is_retryable() -> None:
    """A store that is away is worth another try, a failure that may have run is not."""
    assert fields_of(StoreUnavailable()).retryable is True
    assert fields_of(Failed()).retryable is False
