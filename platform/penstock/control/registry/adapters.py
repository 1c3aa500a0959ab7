"""The registry's rules for adapters: a base is registered before its adapters, and stays while one is used. Pure."""

from collections.abc import Iterable

from penstock.domain.errors import ArtifactRefused, Conflict, InvalidField
from penstock.domain.fleet.versions import Catalogue, Deployment, Seen
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.models import adapter
from penstock.domain.models.model import Manifest, ModelVersion, is_sha256

HEARD_S = 5.0
"""Seconds after which a worker's last heartbeat no longer tells its adapters."""


def check_registration(manifest: Manifest, known: Iterable[ModelVersion]) -> None:
    settings = manifest.adapter
    if settings is None:
        return
    if not is_sha256(settings.base):
        raise ArtifactRefused("an adapter names its base by its whole digest")
    base = next((one for one in known if one.digest == settings.base), None)
    if base is None:
        raise ArtifactRefused(f"no version here has the digest {settings.base}: push the adapter's base first")
    adapter.check_beside(manifest, settings, base)


def holders(seen: Iterable[Seen], now: float) -> dict[VersionId, tuple[WorkerId, ...]]:
    """Workers by adapter, among those heard of recently; ``now`` is Unix seconds."""
    found: dict[VersionId, tuple[WorkerId, ...]] = {}
    for one in sorted(seen, key=lambda one: one.report.worker):
        for version in one.report.adapters if now - one.at <= HEARD_S else ():
            found[version] = (*found.get(version, ()), one.report.worker)
    return found


def refusals(seen: Iterable[Seen], now: float) -> dict[VersionId, tuple[str, ...]]:
    found: dict[VersionId, tuple[str, ...]] = {}
    for one in sorted(seen, key=lambda one: one.report.worker):
        for refused in one.report.refused if now - one.at <= HEARD_S else ():
            left = f" (for {refused.left_s:.0f} s more)" if refused.left_s else ""
            told = f"{one.report.worker}{left}: {refused.reason}"
            found[refused.version] = (*found.get(refused.version, ()), told)
    return found


def base_of(version: VersionId, known: Iterable[ModelVersion]) -> VersionId:
    return adapter.bases_of(known).get(version, version)


def check_scale(wanted: Deployment, known: Catalogue) -> None:
    """``Conflict`` or ``InvalidField`` if an adapter would be left without workers of its base."""
    base = base_of(wanted.version, known.versions)
    if base == wanted.version:
        if not wanted.replicas and (left := _used_on(base, known)):
            says = f"the adapter {left[0]} is served by its workers" + (
                f" (and {len(left) - 1} more)" * (len(left) > 1)
            )
            raise Conflict(f"{says}: scale it to 0 and take it out of its aliases first")
        return
    if wanted.replicas > 1:
        raise InvalidField(
            f"an adapter's replicas are 1 (on) or 0 (off): the workers of {base} serve it", param="replicas"
        )
    if wanted.replicas and not any(one.version == base and one.replicas for one in known.deployments):
        raise Conflict(f"its base has no workers: penstock models scale {base} 1")


def check_renewal(version: VersionId, known: Iterable[ModelVersion]) -> None:
    base = base_of(version, known)
    if base != version:
        raise Conflict(f"an adapter has no workers of its own: penstock restart {base}")


def check_pin(version: VersionId, known: Catalogue) -> None:
    """Raise ``Conflict`` if the version can't be pinned beside the pinned ones."""
    base = next((one for one in known.versions if one.id == base_of(version, known.versions)), None)
    if base is None or base.id == version:
        return
    most = base.manifest.engine.adapter_slots - 1
    pinned = {*known.pinned_adapters.get(base.id, ()), version}
    if len(pinned) > most:
        others = ", ".join(sorted(pinned - {version})) or "none"
        says = f"the engine of {base.id} has {most + 1} slots for adapters, and one stays free for all others"
        does = "unpin one first, or push the base with more adapter_slots"
        raise Conflict(f"{says}, so {most} can be pinned (now: {others}): {does}")


def _used_on(base: VersionId, known: Catalogue) -> list[VersionId]:
    named = {share.version for route in known.routes for share in route.shares}
    named |= {one.version for one in known.deployments if one.replicas}
    of = adapter.bases_of(known.versions)
    return sorted(one for one in named if of.get(one) == base)
