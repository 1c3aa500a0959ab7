"""Packaging, composed with the configured store, signer and folders."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from penstock.apps import slos, stores
from penstock.connectors.signing.keys import PRIVATE
from penstock.control.registry.rules import check_name
from penstock.domain.command_error import CommandError
from penstock.domain.ids import Alias
from penstock.domain.models.model import ModelVersion
from penstock.packaging import adapters, demo
from penstock.packaging.packing import Choices, Packed, Publishing
from penstock.packaging.ports import Report
from penstock.packaging.push import in_words
from penstock.packaging.push import push as push_version
from penstock.packaging.wheels import Pin, pins_of
from penstock.settings import Settings
from penstock.settings.forms import bucket


async def ensure_demo(settings: Settings, report: Report) -> dict[Alias, Packed]:
    """Return the named demo models by alias, signed and stored.

    Raises ``CommandError`` for an unknown name, a failed download or conversion.
    """
    models = [demo.known(name) for name in settings.demo_models]
    with in_words("The demo models"):
        work = Path(settings.demo_cache) if settings.demo_cache else settings.paths.cache / "demo"
        return await demo.ensure(models, pins(), await asyncio.to_thread(_publishing, settings, work, report))


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The store and the signing key of one push, in place of the settings'; empty keeps those."""

    store: str = ""
    signing_key: str = ""
    """A key in KMS."""

    def applied(self, settings: Settings) -> Settings:
        try:
            return settings.model_copy(update={"artifact_store": bucket(self.store)} if self.store else {})
        except ValueError as error:
            raise CommandError(f"The store {error}.", do="Give it as --store s3://bucket/prefix.") from error


HERE = Destination()


async def push(
    settings: Settings,
    source: Path,
    choices: Choices,
    report: Report,
    base: ModelVersion | None = None,
    to: Destination = HERE,
) -> Packed:
    """Sign and store ``source``: a model, or an adapter of ``base``.

    Raises ``CommandError`` if the version is refused or the store can't be used.
    """
    with in_words(str(source)):
        check_name(choices.name)  # before anything is hashed, signed or stored
        settings = to.applied(settings)
        if not to.signing_key:
            _check_key(settings)
        publishing = await asyncio.to_thread(_publishing, settings, settings.paths.cache, report, to.signing_key)
        if base is not None:
            return await asyncio.to_thread(adapters.push, source, choices, base, publishing)
        return await push_version(source, choices, publishing)


def _check_key(settings: Settings) -> None:
    """Raise ``CommandError`` if a shared store has no signing key here: workers refuse versions signed by a new key."""
    key = settings.paths.signing / PRIVATE
    if settings.artifact_store and not key.is_file():
        raise CommandError(
            f"There is no signing key at {key}, and workers of {settings.artifact_store} have the public half of one.",
            do=f"Name the key in KMS by --signing-key, or put the platform's private key at {key}, with mode 600.",
        )


def pins() -> dict[str, Pin]:
    return pins_of(slos.shipped("models.lock", "requirements/models.lock").read_text())


def _publishing(settings: Settings, work: Path, report: Report, signing_key: str = "") -> Publishing:
    signer, store = stores.open_signer(settings, signing_key), stores.open_store(settings)
    work.mkdir(parents=True, exist_ok=True)
    return Publishing(store=store, signer=signer, work=work, report=report)
