"""The registry's port to its store."""

from typing import Protocol

from penstock.domain.fleet.table import Route
from penstock.domain.fleet.versions import Catalogue, Deployment, PastRoute
from penstock.domain.ids import Alias, VersionId
from penstock.domain.models.curves import Curve
from penstock.domain.models.model import ModelVersion
from penstock.domain.serving.auto import Auto, PastAuto
from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.owners import EVERYBODY, Owned, Owners


class RegistryStore(Protocol):
    """A change and its audit entry are written in one transaction; every method may raise ``StoreUnavailable``."""

    async def versions(self) -> tuple[ModelVersion, ...]: ...

    async def add_version(
        self, version: ModelVersion, signature: str, act: Act, tenants: Owners = EVERYBODY
    ) -> ModelVersion:
        """Return the stored version for a known digest, without an audit entry."""
        ...

    async def routes(self) -> tuple[Route, ...]: ...

    async def put_routes(self, changes: tuple[tuple[Alias, Route | None], ...], act: Act) -> None:
        """Write all in one transaction; None removes an alias."""
        ...

    async def route_history(self, alias: Alias, limit: int) -> tuple[PastRoute, ...]: ...

    async def autos(self) -> tuple[Auto, ...]: ...

    async def put_autos(self, changes: tuple[tuple[Alias, Auto | None], ...], act: Act) -> None:
        """Set all auto aliases of ``changes`` in one transaction; None removes one."""
        ...

    async def auto_history(self, alias: Alias, limit: int) -> tuple[PastAuto, ...]: ...

    async def owned(self) -> tuple[Owned, ...]: ...

    async def put_owners(self, version: VersionId, tenants: Owners, act: Act) -> None: ...

    async def deployments(self) -> tuple[Deployment, ...]: ...

    async def put_deployment(self, deployment: Deployment, act: Act) -> None:
        """Raises ``Conflict`` if there is no such version."""
        ...

    async def curves(self, version: VersionId) -> tuple[Curve, ...]: ...

    async def put_curve(self, version: VersionId, curve: Curve, act: Act) -> None:
        """Replace the curve of this hardware; ``Conflict`` without such a version."""
        ...

    async def catalogue(self) -> Catalogue: ...
