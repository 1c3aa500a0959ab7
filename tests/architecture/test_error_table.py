"""The published error table covers the whole error tree."""

from collections.abc import Iterator

import pytest
from grpc import StatusCode

from penstock.domain import errors
from penstock.domain.errors import BadRequest, Evicted, Failed, PenstockError, Rejected
from penstock.domain.jobs import errors as jobs
from penstock.domain.jobs.errors import NoFileRoom
from penstock.gateway.listener.errors import TABLE, row_of

PUBLISHED = {400, 401, 402, 403, 404, 405, 408, 409, 413, 415, 417, 422, 429, 431, 499, 500, 502, 503, 504, 507}


def tree(kind: type[PenstockError]) -> Iterator[type[PenstockError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from tree(child)


KINDS = [kind for kind in tree(PenstockError) if kind.__module__ in {errors.__name__, jobs.__name__}]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_has_a_line_of_its_own(kind: type[PenstockError]) -> None:
    """No error falls back to its parent's line by accident, and each says something by default."""
    assert kind in TABLE
    assert row_of(kind()) is TABLE[kind]
    assert kind().message


def test_the_table_uses_every_published_status_and_no_other() -> None:
    """The statuses are those that the API document declares."""
    assert {row.status for row in TABLE.values()} == PUBLISHED


def test_what_never_ran_may_be_sent_again_and_what_may_have_run_not() -> None:
    """The branch of the tree decides about retrying, but for the caller's own matters and work lost with its worker."""
    for kind in KINDS:
        retryable = TABLE[kind].retryable
        if issubclass(kind, Rejected | Evicted):
            assert retryable == (kind not in {errors.OverBudget, errors.ExceedsLimit, NoFileRoom}), kind
        elif issubclass(kind, BadRequest | Failed):
            assert retryable == issubclass(kind, errors.RequestTimedOut | errors.WorkerLost), kind


def test_grpc_repeats_by_itself_only_what_never_ran() -> None:
    """Clients of gRPC send again what is UNAVAILABLE without asking, so it stands only where the table allows that."""
    assert {row.grpc for row in TABLE.values()} <= {code.name for code in StatusCode} - {"OK", "UNKNOWN"}
    assert [kind for kind in KINDS if TABLE[kind].grpc == "UNAVAILABLE" and not TABLE[kind].retryable] == []


def test_codes_tell_errors_apart() -> None:
    """Two leaves never share a code; only branches repeat one."""
    leaves = [kind for kind in KINDS if not kind.__subclasses__()]
    assert len({kind.code for kind in leaves}) == len(leaves)
