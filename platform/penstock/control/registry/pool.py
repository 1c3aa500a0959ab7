"""The pool's rules for deployments: a deployment that can never fit is refused at once. Pure.

A pinned adapter keeps its base's workers awake.

Trade-off: pinned versions are checked against the whole pool, so that a pin holds. Other deployments may exceed the
pool; and restarting a pinned version needs room for one more worker, which may be missing.
"""

from dataclasses import replace

from penstock.control.capacity.memory import megabytes, sizes
from penstock.domain.errors import Conflict
from penstock.domain.fleet.versions import Catalogue, Deployment
from penstock.domain.models.adapter import bases_of


def check(wanted: Deployment, known: Catalogue, limit_bytes: int) -> None:
    """Raise ``Conflict`` if the deployment does not fit beside pinned versions; ``limit_bytes`` 0: no pool."""
    if not limit_bytes or not wanted.replicas:
        return
    held = sizes(known.versions)
    needs = held.get(wanted.version, 0)
    if needs > limit_bytes:
        says = f"a worker of {wanted.version} needs {megabytes(needs)}"
        raise Conflict(f"{says}, and the pool has {megabytes(limit_bytes)} (PENSTOCK_POOL_BYTES)")
    others = (one for one in known.deployments if one.version != wanted.version)
    after = replace(known, deployments=(*others, wanted))
    if bases_of(known.versions).get(wanted.version, wanted.version) not in after.kept:
        return
    pinned = sum(one.replicas * held.get(one.version, 0) for one in after.deployments if one.version in after.kept)
    if pinned > limit_bytes:
        does = "unpin another version, give it fewer workers, or enlarge PENSTOCK_POOL_BYTES"
        raise Conflict(f"pinned workers would need {megabytes(pinned)} of the pool's {megabytes(limit_bytes)}: {does}")
