"""Rules of the registry (F1, F2, B5): versions are immutable, signed, priced, licensed, and have no code in their
files; routes, tenants and deployments must be consistent. Pure.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TypeVar

from penstock.capacity.memory import megabytes, sizes
from penstock.domain.errors import ArtifactRefused, Conflict, InvalidField
from penstock.domain.fleet.table import MOST_OVERRIDES, WEIGHT_TOTAL, Route
from penstock.domain.fleet.versions import Catalogue, Deployment
from penstock.domain.ids import Alias, VersionId
from penstock.domain.models import adapter
from penstock.domain.models.adapter import bases_of
from penstock.domain.models.model import Manifest, ModelVersion, digest_of, version_id
from penstock.domain.serving.auto import Auto
from penstock.domain.tenancy.owners import MOST_OWNERS, Owned, Owners, said
from penstock.formats import manifests

PICKLED = frozenset({".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".h5", ".hdf5", ".joblib", ".npy", ".npz"})
"""Formats that can run code when they are opened."""
MAX_REPLICAS = 1000

_FILES = "manifest.files"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
Led = TypeVar("Led", Route, Auto)
"""An alias with versions of its own, or with rules."""


def version_of(manifest: Manifest, signature: str, now: float) -> ModelVersion:
    check_name(manifest.name)
    manifests.check(manifest)
    adapter.check_slots(manifest.engine, generates=adapter.generates(manifest))
    _check_files(manifest)
    digest = digest_of(manifest)
    if not signature:
        raise ArtifactRefused("the version is not signed", param="signature")
    if signature != f"signatures/{digest}":
        raise ArtifactRefused(
            f"the signature is for another manifest, not for this one with digest {digest}", param="signature"
        )
    return ModelVersion(id=version_id(manifest.name, digest), digest=digest, manifest=manifest, created_at=now)


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise ArtifactRefused(
            "a model's name has 1 to 63 of a-z, 0-9, '.', '_' and '-', and begins with a letter or digit", param="name"
        )


def _check_files(manifest: Manifest) -> None:
    if not manifest.files:
        raise ArtifactRefused("the version has no files", param=_FILES)
    paths = [file.path for file in manifest.files]
    if len(set(paths)) != len(paths):
        raise ArtifactRefused("the manifest lists a file twice", param=_FILES)
    if manifest.adapter is not None and set(paths) != adapter.FILES:
        raise ArtifactRefused(
            f"an adapter consists of {', '.join(sorted(adapter.FILES))}, and of nothing else", param=_FILES
        )
    for at, file in enumerate(manifest.files):
        path, where = PurePosixPath(file.path), f"{_FILES}[{at}]"
        if not file.path or path.is_absolute() or ".." in path.parts or "\\" in file.path:
            raise ArtifactRefused(f"{file.path!r} is not a path inside the version", param=f"{where}.path")
        if any(suffix.lower() in PICKLED for suffix in path.suffixes):
            raise ArtifactRefused(
                f"{file.path} may run code when it is opened; convert it to safetensors", param=f"{where}.path"
            )
        if not _SHA256.fullmatch(file.sha256) or not 0 <= file.size_bytes <= manifests.MOST_OF_ALL:
            raise ArtifactRefused(f"{file.path} has no SHA-256 or no size", param=where)


def check_route(route: Route, known: frozenset[VersionId]) -> Route:
    if not NAME.fullmatch(route.alias):
        raise InvalidField("an alias has 1 to 63 of a-z, 0-9, '.', '_' and '-'", param="alias")
    versions = [share.version for share in route.shares]
    if len(set(versions)) != len(versions):
        raise InvalidField("the shares list a version twice", param="shares")
    for version in versions:
        if version not in known:
            raise InvalidField(f"there is no version {version}", param="shares")
    if any(share.weight < 0 for share in route.shares) or sum(share.weight for share in route.shares) != WEIGHT_TOTAL:
        raise InvalidField(f"shares are at least 0 and add up to 100 % (as weights: {WEIGHT_TOTAL})", param="shares")
    if route.fallback and route.fallback not in versions:
        raise InvalidField("an alias's fallback must be one of its own versions", param="fallback")
    _check_overrides(route, versions)
    return route


def _check_overrides(route: Route, versions: Collection[VersionId]) -> None:
    if len(route.overrides) > MOST_OVERRIDES:
        raise InvalidField(f"an alias has at most {MOST_OVERRIDES} overrides", param="overrides")
    if len({one.tenant for one in route.overrides}) != len(route.overrides):
        raise InvalidField("the overrides list a tenant twice", param="overrides")
    for one in route.overrides:
        if one.version not in versions:
            says = f"{one.tenant} can't have {one.version}, which is none of this alias's versions"
            raise InvalidField(f"{says}: name it among the shares, or leave the override out", param="overrides")


def check_deployment(deployment: Deployment, known: frozenset[VersionId]) -> Deployment:
    if deployment.version not in known:
        raise InvalidField(f"there is no version {deployment.version}", param="version")
    if not 0 <= deployment.replicas <= MAX_REPLICAS:
        raise InvalidField(f"replicas are between 0 and {MAX_REPLICAS}", param="replicas")
    return deployment


def checked_owners(tenants: Owners) -> Owners:
    """Return the tenants sorted and unique, or raise ``InvalidField``; None is every tenant."""
    if tenants is None:
        return None
    found = tuple(sorted({*tenants}))
    if not found:
        raise InvalidField("name at least one tenant, or null for every tenant", param="tenants")
    if len(found) > MOST_OWNERS:
        raise InvalidField(f"a version is for {MOST_OWNERS} tenants at most, or for every tenant", param="tenants")
    return found


def check_same_owners(version: VersionId, asked: Owners, owned: Iterable[Owned]) -> None:
    now: Owners = next((one.tenants for one in owned if one.version == version), None)
    if now != asked:
        do = f"penstock models tenants {version}"
        is_added = now is not None and asked is not None and not set(asked) <= set(now)
        alone, both = ",".join(asked or ()), ",".join(sorted({*(now or ()), *(asked or ())}))
        how = f"to add these, {do} {both}" if is_added else f"to take it from all others, {do} {alone}"
        raise Conflict(f"{version} is registered already, for {said(now)}: {how}")


def check_owned_overrides(route: Route, owners: Mapping[VersionId, Owners]) -> None:
    for one in route.overrides:
        theirs = owners.get(one.version)
        if theirs is not None and one.tenant not in theirs:
            do = f"leave that override out, or add the tenant first (penstock models tenants {one.version} …)"
            raise InvalidField(
                f"{one.version} is for {said(theirs)}, and not for {one.tenant}: {do}", param="overrides"
            )


def check_pool(wanted: Deployment, known: Catalogue, limit_bytes: int) -> None:
    """``Conflict`` if the deployment does not fit beside pinned versions; ``limit_bytes`` 0: no pool. Pinned versions
    are checked against the whole pool, so that a pin holds; others may exceed it together.
    """
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


def changes_to(routes: Iterable[Led], wanted: Iterable[Led]) -> tuple[tuple[Alias, Led | None], ...]:
    now, then = ({route.alias: route for route in side} for side in (routes, wanted))
    return tuple(
        (alias, then.get(alias)) for alias in sorted(now.keys() | then.keys()) if now.get(alias) != then.get(alias)
    )
