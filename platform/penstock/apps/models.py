"""Packaging, composed with the configured store, signer and folders."""

import asyncio
from pathlib import Path

from penstock.apps import slos, stores
from penstock.apps.settings import Settings
from penstock.connectors.signing.keys import PRIVATE
from penstock.control.registry.rules import check_name
from penstock.domain.command_error import CommandError
from penstock.domain.ids import Alias
from penstock.domain.models.model import ModelVersion
from penstock.packaging import adapters, demo
from penstock.packaging.packing import Choices, Packed, Publishing
from penstock.packaging.ports import Report
from penstock.packaging.push import push as push_version
from penstock.packaging.refusals import in_words
from penstock.packaging.wheels import Pin, pins_of


async def ensure_demo(settings: Settings, report: Report) -> dict[Alias, Packed]:
    """Return the named demo models by alias, signed and stored.

    Raises ``CommandError`` for an unknown name, a failed download or conversion.
    """
    models = [demo.known(name) for name in settings.demo_models]
    with in_words("The demo models"):
        work = Path(settings.demo_cache) if settings.demo_cache else settings.paths.cache / "demo"
        return await demo.ensure(models, pins(), await asyncio.to_thread(_publishing, settings, work, report))


async def push(
    settings: Settings, source: Path, choices: Choices, report: Report, base: ModelVersion | None = None
) -> Packed:
    """Sign and store ``source``: a model, or an adapter of ``base``.

    Raises ``CommandError`` if the version is refused or the store can't be used.
    """
    with in_words(str(source)):
        check_name(choices.name)  # before anything is hashed, signed or stored
        _check_key(settings)
        publishing = await asyncio.to_thread(_publishing, settings, settings.paths.cache, report)
        if base is not None:
            return await asyncio.to_thread(adapters.push, source, choices, base, publishing)
        return await push_version(source, choices, publishing)


def _check_key(settings: Settings) -> None:
    """Raise ``CommandError`` if a shared store has no signing key here: workers refuse versions signed by a new key."""
    key = settings.paths.signing / PRIVATE
    if settings.artifact_store and not key.is_file():
        raise CommandError(
            f"There is no signing key at {key}, and workers of {settings.artifact_store} have the public half of one.",
            do=f"Put the platform's private key at {key}, with mode 600.",
        )


def pins() -> dict[str, Pin]:
    return pins_of(slos.shipped("models.lock", "requirements/models.lock").read_text())


def _publishing(settings: Settings, work: Path, report: Report) -> Publishing:
    work.mkdir(parents=True, exist_ok=True)
    return Publishing(store=stores.open_store(settings), signer=stores.open_signer(settings), work=work, report=report)
