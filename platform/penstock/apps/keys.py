"""The platform's keys, read from their files, and again when the files change: a new key needs no restart."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from penstock.apps.settings import KeySettings, SettingKind, Told
from penstock.apps.settings.told import PREFIX, named
from penstock.domain.command_error import CommandError
from penstock.domain.tenancy.keys import Purpose, derive
from penstock.mounted import secret_file
from penstock.telemetry import logs

LOOK_EVERY_S = 5.0
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
    seen = _stamps(files)
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        now = _stamps(files)
        if now == seen:
            continue
        seen = now
        try:
            keys = read(settings)
        except CommandError as error:
            logs.logger().error("keys_not_changed", reason=error.what)
        else:
            await on_change(keys)
            logs.logger().info("keys_changed", count=len(keys.platform))


def _stamps(files: list[Path]) -> list[secret_file.Stamp]:
    return [secret_file.stamp(file) for file in files]
