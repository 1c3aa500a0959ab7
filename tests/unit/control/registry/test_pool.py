"""What can never be in a pool is refused when it is asked for."""

from dataclasses import replace

import pytest

from penstock.capacity.memory import worker_bytes
from penstock.control.registry.rules import check_pool
from penstock.domain.errors import Conflict
from penstock.domain.fleet.versions import Catalogue, Deployment
from tests.support.samples import adapter_versions
from tests.support.samples import control_plane as things

A, B = things.version("a"), things.version("b")
SIZE = worker_bytes(A.manifest)
ONE = Deployment(version=A.id, replicas=1, pinned=True)
KNOWN = Catalogue(versions=(A, B), deployments=(replace(ONE, pinned=False), replace(ONE, version=B.id)))


def test_more_pinned_than_fits_is_refused() -> None:
    """Pinned workers must all fit at once, whatever it is that makes them too many."""
    check_pool(ONE, KNOWN, 2 * SIZE)
    with pytest.raises(Conflict, match=r"pinned workers would need .* unpin another version"):
        check_pool(ONE, KNOWN, 2 * SIZE - 1)
    with pytest.raises(Conflict, match="pinned workers would need"):
        check_pool(replace(ONE, replicas=2), KNOWN, 2 * SIZE)


def test_what_is_not_pinned_must_fit_alone() -> None:
    """More may be deployed than fits, but nothing that could never be awake."""
    check_pool(replace(ONE, pinned=False, replicas=9), KNOWN, SIZE)
    with pytest.raises(Conflict, match=f"a worker of {A.id} needs"):
        check_pool(replace(ONE, pinned=False), KNOWN, SIZE - 1)


def test_nothing_is_refused_without_a_pool_or_without_workers() -> None:
    """Where there is no bound, and for what is to go, there is nothing to hold it against."""
    check_pool(replace(ONE, replicas=900), KNOWN, 0)
    check_pool(replace(ONE, replicas=0), KNOWN, 1)


def test_a_pinned_adapter_keeps_its_bases_workers() -> None:
    """Their memory counts, once, whether the base is pinned beside it or not."""
    base, lora = adapter_versions.BASE, adapter_versions.version()
    size = worker_bytes(base.manifest)
    on = (Deployment(version=base.id, replicas=2), Deployment(version=lora.id, replicas=1))
    known = Catalogue(versions=(base, lora), deployments=on)
    pinned = replace(on[1], pinned=True)
    check_pool(pinned, known, 2 * size)
    with pytest.raises(Conflict, match="pinned workers would need"):
        check_pool(pinned, known, 2 * size - 1)
    kept = replace(known, deployments=(on[0], pinned))
    check_pool(replace(on[0], pinned=True), kept, 2 * size)
    with pytest.raises(Conflict, match="pinned workers would need"):
        check_pool(replace(on[0], replicas=3), kept, 2 * size)
