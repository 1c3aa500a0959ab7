"""A controller's API on a real Postgres, in this process: the stores of a real one, the rest as in memory."""

from dataclasses import replace

from penstock.connectors.postgres.audit import PostgresAudit
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.deletions import PostgresDeletions
from penstock.connectors.postgres.registry import PostgresRegistry
from penstock.connectors.postgres.rollouts import PostgresRollouts
from penstock.connectors.postgres.safety import PostgresPacks
from penstock.connectors.postgres.tables import PostgresTables
from penstock.connectors.postgres.tenancy import PostgresTenancy
from penstock.connectors.postgres.tenant_keys import PostgresTenantKeys
from penstock.control.registry.registry import Registry
from penstock.scaling.bounds import Bounds
from penstock.sealing.administration import KeyAdministration
from penstock.sealing.local import LocalEncryption
from tests.support.clock import ManualClock
from tests.support.controllers.in_memory import Room


class StoredRoom(Room):
    """``Room`` with the operators' stores in a database."""

    def __init__(self, clock: ManualClock, database: Database, *, bounds: tuple[Bounds, ...] = ()) -> None:
        super().__init__(clock, bounds=bounds)
        registry = PostgresRegistry(database)
        self.tenancy = PostgresTenancy(database)  # type: ignore[assignment]
        self.tables = PostgresTables(database)  # type: ignore[assignment]
        stored = replace(self.control.rollouts, store=PostgresRollouts(database), catalogue=registry.catalogue)
        self.control = replace(
            self.control,
            acts=database.act,
            registry=Registry(registry),
            tenancy=self.tenancy,
            tables=self.tables,
            packs=PostgresPacks(database),
            deletions=PostgresDeletions(database),
            audit=PostgresAudit(database),
            sealing=KeyAdministration(
                PostgresTenantKeys(database), LocalEncryption(lambda: self.platform_keys), "local"
            ),
            rollouts=stored,
        )
