"""What the registry needs from a store."""

from typing import Protocol

from penstock.domain.fleet.table import Route
from penstock.domain.fleet.versions import Catalogue, Deployment, PastRoute
from penstock.domain.ids import Alias, VersionId
from penstock.domain.models.model import ModelVersion
from penstock.domain.serving.auto import Auto, PastAuto
from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.owners import EVERYBODY, Owned, Owners


class RegistryStore(Protocol):
    """Every change and its act are written together or not at all; all may raise ``StoreUnavailable``."""

    async def versions(self) -> tuple[ModelVersion, ...]:
        """Every version, oldest first."""
        ...

    async def add_version(
        self, version: ModelVersion, signature: str, act: Act, tenants: Owners = EVERYBODY
    ) -> ModelVersion:
        """Store it as these tenants' and return it; where the digest is stored already, that one: no act is noted."""
        ...

    async def routes(self) -> tuple[Route, ...]:
        """The routes in force, by alias."""
        ...

    async def put_routes(self, changes: tuple[tuple[Alias, Route | None], ...], act: Act) -> None:
        """Set (or with None take away) several aliases at once."""
        ...

    async def route_history(self, alias: Alias, limit: int) -> tuple[PastRoute, ...]:
        """What an alias was set to, newest first."""
        ...

    async def autos(self) -> tuple[Auto, ...]:
        """The auto aliases in force, by alias."""
        ...

    async def put_autos(self, changes: tuple[tuple[Alias, Auto | None], ...], act: Act) -> None:
        """Set (or with None take away) several auto aliases at once."""
        ...

    async def auto_history(self, alias: Alias, limit: int) -> tuple[PastAuto, ...]:
        """What an auto alias was set to, newest first."""
        ...

    async def owned(self) -> tuple[Owned, ...]:
        """The versions that are not for everybody, by version."""
        ...

    async def put_owners(self, version: VersionId, tenants: Owners, act: Act) -> None:
        """Say for which tenants a version is; ``Conflict`` where there is no such version."""
        ...

    async def deployments(self) -> tuple[Deployment, ...]:
        """Every deployment, by version."""
        ...

    async def put_deployment(self, deployment: Deployment, act: Act) -> None:
        """Set what should run of a version; ``Conflict`` where there is no such version."""
        ...

    async def catalogue(self) -> Catalogue:
        """Everything in one snapshot."""
        ...
