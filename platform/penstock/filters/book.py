"""The packs in force on a platform, as gateways follow them: the current version of each, and the platform's floor."""

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.domain.errors import StoreUnavailable
from penstock.filters.pack import Pack, Policy, strictest

AGAIN_S = 1.0
"""Seconds until a gateway has a pack that was pushed a moment ago."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPack:
    """A version of a pack; ``digest`` is the one under which it was stored, ``created_at`` Unix seconds."""

    pack: Pack
    digest: str
    is_current: bool
    created_at: float


@dataclass(frozen=True, kw_only=True)
class Book:
    packs: tuple[Pack, ...] = ()
    floor: tuple[str, ...] = ()
    """Packs that hold for every request."""

    def policy(self, of_version: Iterable[str], of_tenant: Iterable[str]) -> Policy:
        """Return the strictest of the floor and the named packs.

        Raises ``StoreUnavailable`` if a pack is not here yet: nothing is served unfiltered meanwhile.
        """
        known = {pack.id: pack for pack in self.packs}
        wanted = dict.fromkeys((*self.floor, *of_version, *of_tenant))
        if lost := wanted.keys() - known.keys():
            message = f"this gateway does not have the safety pack {min(lost)} yet"
            raise StoreUnavailable(message, retry_after_s=AGAIN_S)
        return strictest(known[name] for name in wanted)


class CurrentPacks:
    """The newest book of a process, and the policies that were asked of it."""

    def __init__(self) -> None:
        self._book: Book | None = None
        self._policies: dict[tuple[tuple[str, ...], str], Policy] = {}

    @property
    def is_known(self) -> bool:
        return self._book is not None

    def replace(self, book: Book) -> None:
        self._book, self._policies = book, {}

    def policy(self, of_version: tuple[str, ...], of_plan: str) -> Policy:
        """Return the policy for a version's packs and a plan's ``safety``; raise ``StoreUnavailable`` as ``Book`` does,
        and before the first book.
        """
        asked = (of_version, of_plan)
        if asked not in self._policies:
            if self._book is None:
                raise StoreUnavailable("this gateway has no safety packs yet", retry_after_s=AGAIN_S)
            self._policies[asked] = self._book.policy(of_version, names(of_plan))
        return self._policies[asked]


def names(text: str) -> tuple[str, ...]:
    """Return the packs of a plan's ``safety``, written with commas."""
    return tuple(name for name in text.split(",") if name)
