"""The platform's keys, read from their files, and again when the files change: a new key needs no restart.

A worker's own secrets are derived from them; it never reads the platform's key.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from penstock.domain.command_error import CommandError
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.tenancy.keys import Purpose, derive, worker_bearer, worker_secret
from penstock.mounted import secret_file
from penstock.settings.processes import WorkerSettings
from penstock.settings.stores import KeySettings
from penstock.settings.told import PREFIX, SettingKind, Told, named
from penstock.supervision.files import write_private
from penstock.telemetry import logs

_PLATFORM = partial(
    secret_file.key,
    what="platform key",
    do="Run `penstock up` once, which makes one, or mount it for PENSTOCK_PLATFORM_KEY_FILE.",
)
_PEPPER = partial(secret_file.key, what="pepper of API keys (PENSTOCK_PEPPER_FILE)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The platform's keys, newest first: it signs, and all of them verify."""

    platform: tuple[bytes, ...]
    peppers: tuple[bytes, ...]

    def after(self, before: "Keys") -> "Keys":
        return Keys(platform=self.platform + before.platform, peppers=self.peppers + before.peppers)

    def __repr__(self) -> str:
        return "Keys(…)"


def read(settings: KeySettings) -> Keys:
    """Return the keys; ``CommandError`` names the file and the remedy."""
    platform = secret_file.with_previous(platform_file(settings), _PLATFORM)
    if not settings.pepper_file:
        return Keys(platform=platform, peppers=tuple(derive(key, Purpose.PEPPER) for key in platform))
    return Keys(platform=platform, peppers=secret_file.with_previous(Path(settings.pepper_file), _PEPPER))


def check_files(settings: Told, declared: type[Told]) -> None:
    """Raise ``CommandError`` for the first unusable file."""
    for kind in (SettingKind.KEY_FILE, SettingKind.FILE):
        for name in named(kind, declared):
            if file := getattr(settings, name):
                secret_file.text(Path(file), f"file of {PREFIX}{name.upper()}", secret=kind is SettingKind.KEY_FILE)


def platform_file(settings: KeySettings) -> Path:
    return Path(settings.platform_key_file) if settings.platform_key_file else settings.paths.platform_key


async def follow(settings: KeySettings, on_change: Callable[[Keys], Awaitable[None]]) -> None:
    """Deliver the keys when their files change; unusable files leave the old keys in force."""
    files = [platform_file(settings), *([Path(settings.pepper_file)] if settings.pepper_file else [])]
    async for _ in secret_file.changes(files):
        try:
            keys = read(settings)
        except CommandError as error:
            logs.logger().error("keys_not_changed", reason=error.what)
        else:
            await on_change(keys)
            logs.logger().info("keys_changed", count=len(keys.platform))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSecrets:
    ticket_key: bytes
    bearer: str

    def __repr__(self) -> str:
        return "WorkerSecrets(…)"


def worker_key(settings: KeySettings, worker: WorkerId, version: VersionId) -> str:
    key = read(settings).platform[0]
    return f"{worker_secret(key, worker).hex()} {worker_bearer(key, worker, version)}"


def provide_worker_key(settings: KeySettings, worker: WorkerId, version: VersionId) -> None:
    write_private(settings.paths.worker_key(worker), worker_key(settings, worker, version))


def worker_secrets(settings: WorkerSettings, worker: WorkerId) -> WorkerSecrets:
    given = settings.worker_key_file
    file = Path(given) if given else settings.paths.worker_key(worker)
    do = "`penstock worker-key NAME VERSION` beside the platform key prints one."
    try:
        ticket_key, bearer = secret_file.text(file, f"key of worker {worker}", do=do).split()
        return WorkerSecrets(ticket_key=bytes.fromhex(ticket_key), bearer=bearer)
    except ValueError as error:
        raise CommandError(f"There is no usable key of worker {worker} in {file}.", do=do) from error
