"""Provides a version on a node: from its cache if sound, else from the store, always verified.

The last check before an engine loads weights: the folder is complete, signed, and of a served kind.
"""

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from penstock.domain.errors import ArtifactRefused
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.models.model import Manifest
from penstock.formats.contents import MANIFEST, check_contents, check_listing, check_manifest
from penstock.telemetry.logs import logger
from penstock.worker.artifacts.cache import Hold, NodeCache
from penstock.worker.artifacts.fetch import ArtifactSource, Fetcher, OnProgress, SignatureVerifier, silent
from penstock.worker.artifacts.parts import bytes_there, explained

UNSIGNED = "the version is not signed: push it again, `penstock models push` signs with the platform's key"

T = TypeVar("T")


def read_manifest(raw: bytes, digest: str) -> Manifest:
    if hashlib.sha256(raw).hexdigest() != digest:
        raise ArtifactRefused(f"{MANIFEST} was altered: its SHA-256 is not the version's digest {digest}")
    try:
        manifest = msgspec.json.decode(raw, type=Manifest)
    except msgspec.DecodeError as error:
        raise ArtifactRefused(f"{MANIFEST} is not a manifest: {error}") from error
    check_manifest(manifest)
    return manifest


def verify(folder: Path, digest: str, signature: bytes | None, verifier: SignatureVerifier) -> Manifest:
    """Return a loadable folder's manifest; ``ArtifactRefused`` names file and reason."""
    path = folder / MANIFEST
    if not path.is_file():
        raise ArtifactRefused(f"{MANIFEST} is missing from the version's folder; fetch the version again")
    manifest = read_manifest(path.read_bytes(), digest)
    check_listing(folder, manifest.files)
    if not signature:
        raise ArtifactRefused(UNSIGNED)
    verifier.verify(folder, signature)
    check_contents(folder)
    return manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Stays on disk until ``hold`` is released or the process ends."""

    folder: Path
    manifest: Manifest
    hold: Hold


def no_phase(_: WorkerState) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    phase: Callable[[WorkerState], None] = no_phase
    progress: OnProgress = silent


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    source: ArtifactSource
    cache: NodeCache
    fetcher: Fetcher
    verifier: SignatureVerifier

    def obtain(self, digest: str, watch: Watch | None = None) -> Copy:
        """Raises ``ArtifactRefused`` (it may not be served) or ``StoreUnavailable``. Blocks for minutes for large
        weights: call it in a thread. Workers of a node share one fetch.
        """
        watch = watch or Watch()
        hold, manifest = self._held(digest, lambda: self._cached(digest, watch) or self._fetched(digest, watch))
        return Copy(folder=self.cache.folder(digest), manifest=manifest, hold=hold)

    def ahead(self, digest: str) -> Hold:
        """Fetch, only within the budget, for a worker that is still to come, which verifies the copy."""
        is_there = self.cache.folder(digest).is_dir
        return self._held(digest, lambda: is_there() or self._fetched(digest, Watch(), within_budget=True))[0]

    def _held(self, digest: str, provide: Callable[[], T]) -> tuple[Hold, T]:
        try:
            with self.cache.fetching(digest):
                hold = self.cache.hold(digest)
                try:
                    return hold, provide()
                except BaseException:
                    hold.release()
                    raise
        except OSError as error:
            raise explained(self.cache.folder(digest).parent, error) from error

    def _cached(self, digest: str, watch: Watch) -> Manifest | None:
        if not self.cache.folder(digest).is_dir():
            return None
        watch.phase(WorkerState.VERIFYING)
        try:
            return self._verified(digest, self.cache.folder(digest))
        except ArtifactRefused as damage:
            logger().warning("cached_version_damaged", digest=digest, reason=damage.message)
            self.cache.drop(digest)
            return None

    def _fetched(self, digest: str, watch: Watch, *, within_budget: bool = False) -> Manifest:
        watch.phase(WorkerState.FETCHING)
        signature = self.source.signature(digest)
        if not signature:
            raise ArtifactRefused(UNSIGNED)
        staging = self._fetch(digest, watch.progress, within_budget=within_budget)
        self.cache.signature(digest).write_bytes(signature)
        watch.phase(WorkerState.VERIFYING)
        try:
            manifest = self._verified(digest, staging)
        except ArtifactRefused:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        self.cache.publish(digest)
        return manifest

    def _fetch(self, digest: str, on_progress: OnProgress, *, within_budget: bool) -> Path:
        raw = self.source.read_small(digest)
        manifest = read_manifest(raw, digest)
        staging = self.cache.staging(digest)
        staging.mkdir(exist_ok=True)
        there = sum(bytes_there(staging, file) for file in manifest.files)
        self.cache.make_room(manifest.size_bytes - there, within_budget=within_budget)
        self.fetcher.fetch(manifest.files, staging, on_progress)
        (staging / MANIFEST).write_bytes(raw)
        return staging

    def _verified(self, digest: str, folder: Path) -> Manifest:
        path = self.cache.signature(digest)
        signature = path.read_bytes() if path.is_file() else None
        return verify(folder, digest, signature, self.verifier)
